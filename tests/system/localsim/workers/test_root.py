"""A worker's root, made for real: by whoever runs the tests, and by an ordinary user."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import localsim
from localsim.workers.disk import root_plan, system_layer
from localsim.workers.disk.slice_disk import WorkerDisk

DRIVER = Path(__file__).with_name("boot_root.py")
SYSTEM_PYTHON = Path("/usr/bin/python3")
ORDINARY_USER = 54321
HOSTNAME = "t1v-n-0a1b2c3d-w-0"
KIND = "v5litepod-16"
HOSTS = "127.0.0.1 localhost\n10.128.0.2 t1v-n-0a1b2c3d-w-0\n"


@dataclass
class Machine:
    """A worker without a network: each `boot` is a boot of it, which ends after its steps."""

    directory: Path
    user: int | None
    refuse_overlays: bool = False

    @property
    def disk(self) -> WorkerDisk:
        return WorkerDisk(self.directory / "slices" / "5" / "0")

    @property
    def python(self) -> str:
        return sys.executable if self.user is None else str(SYSTEM_PYTHON)

    def as_user(self) -> list[str]:
        """What starts a program as the user: `user` of subprocess forks beside gRPC's threads."""
        if self.user is None:
            return []
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]

    def plan(self) -> dict[str, Any]:
        plan = root_plan.plan_root(
            self.disk,
            accelerator_type=KIND,
            hosts_file=self.directory / "hosts",
            shared=self.directory / "vpc",
        )
        for mount in [plan["root"], *plan["mounts"]]:
            if self.refuse_overlays and mount["kind"] == "overlay":
                mount["work"] = mount["upper"]  # the kernel wants them apart
        return plan

    def boot(self, *steps: str) -> tuple[list[str], list[tuple[int, str]]]:
        order = json.dumps({"hostname": HOSTNAME, "plan": self.plan(), "steps": steps})
        ran = subprocess.run(
            [*self.as_user(), self.python, "-I", "-S", str(DRIVER)],
            input=order,
            capture_output=True,
            text=True,
            check=False,
        )
        if not ran.stdout:
            pytest.fail(ran.stderr)
        answer = json.loads(ran.stdout)
        if "refused" in answer:
            pytest.skip(f"no namespaces: {answer['refused']}")
        return answer["notes"], [(code, text) for code, text in answer["results"]]

    def run(self, *steps: str) -> list[str]:
        """Boot, and the output of the steps that are shell lines and must succeed."""
        results = self.boot(*steps)[1]
        assert [code for code, _ in results] == [0] * len(steps), results
        return [text for (_, text), step in zip(results, steps, strict=True) if step[0] != "!"]


@pytest.fixture(scope="module", params=["as ourselves", "as an ordinary user"])
def simulator(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """What the workers of one simulator share."""
    ordinary = request.param == "as an ordinary user"
    # Not below tmp_path, which is closed to other users.
    directory = Path(tempfile.mkdtemp(prefix="root-test-", dir="/tmp"))
    try:
        with pytest.MonkeyPatch.context() as monkeypatch:
            if ordinary:
                become_ordinary(monkeypatch)
            (directory / "hosts").write_text(HOSTS)
            (directory / "guest").mkdir()
            (directory / "guest" / "hook.py").write_text("found = True\n")
            root_plan.prepare_shared(directory / "vpc", {"python": directory / "guest"})
            root_plan.prepare_chips(directory / "vpc", KIND)
            if ordinary:
                hand_over(directory)
            yield Machine(directory, ORDINARY_USER if ordinary else None)
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def machine(simulator: Machine) -> Iterator[Machine]:
    simulator.disk.directory.mkdir(parents=True)
    if simulator.user is not None:
        hand_over(simulator.directory / "slices")
    yield simulator
    simulator.refuse_overlays = False
    shutil.rmtree(simulator.directory / "slices")


def become_ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user as it is")
    if not SYSTEM_PYTHON.exists():
        pytest.skip(f"there is no {SYSTEM_PYTHON}, which every user may run")
    monkeypatch.setattr(os, "geteuid", lambda: ORDINARY_USER)
    for name in ("prefix", "base_prefix", "exec_prefix"):
        monkeypatch.setattr(sys, name, "/usr")
    monkeypatch.setattr(sys, "executable", str(SYSTEM_PYTHON))


def hand_over(directory: Path) -> None:
    for parent, names, files in os.walk(directory):
        for name in [".", *names, *files]:
            os.lchown(Path(parent, name), ORDINARY_USER, ORDINARY_USER)


def test_nothing_else_of_the_machine_is_in_sight(machine: Machine):
    (machine.directory / "control-token").write_text("secret")
    home, empty, run, tmp, mine, shadow = machine.run(
        "!user ada",
        "ls -A /home",
        "ls -A /mnt /media /srv /lost+found | grep -v :$ | grep . || true",
        "ls -A /run",
        "ls -A /tmp",
        f"test ! -e {machine.directory}",
        "cat /etc/shadow",
    )
    assert (home, empty, run, mine, shadow) == ("ada\n", "", "lock\n", "", "root:*:::::::\n")
    shown = [*root_plan.interpreter_prefixes(), *root_plan.package_directories()]
    assert set(tmp.split()) == {each.parts[2] for each in shown if each.is_relative_to("/tmp")}


def test_what_is_written_to_system_directories_stays_on_the_workers_disk(machine: Machine):
    lines = (
        "echo mine > /usr/local/bin/mine",
        "rm /usr/bin/env",
        "echo more >> /etc/environment",
        "mkdir -p /opt/tool /var/lib/tool /data && echo kept > /data/file",
    )
    machine.run(*lines)
    assert not Path("/usr/local/bin/mine").exists()
    assert Path("/usr/bin/env").exists()
    assert (machine.disk.upper / "%2Fusr/local/bin/mine").read_text() == "mine\n"
    again = machine.run(
        "cat /usr/local/bin/mine /data/file", "test ! -e /usr/bin/env", "cat /etc/environment"
    )
    assert again[0] == "mine\nkept\n"
    assert again[2].endswith("more\n")


def test_the_interpreter_of_localsim_runs_with_its_packages(machine: Machine):
    where, pip = machine.run(
        f"cd {Path(root_plan.__file__).parents[3]} && {machine.python} -c"
        " 'import localsim, tpuctl; print(localsim.__file__)'",
        f"{sys.executable} -m pip --version",
    )
    assert where == f"{Path(localsim.__file__)}\n"
    assert pip.startswith("pip ")


def test_packages_are_read_only_where_they_are_no_part_of_the_interpreter(machine: Machine):
    for path in root_plan.package_directories():
        ((code, text),) = machine.boot(f"touch {path}/mine")[1]
        assert (code, "Read-only" in text) == (1, True)


def test_a_home_that_was_removed_is_there_at_the_next_login(machine: Machine):
    _, shown, known = machine.run(
        "!user ada", "rm -r /home/ada", "!user ada", "ls -A /home/ada", "grep -c ^ada: /etc/passwd"
    )
    assert (shown, known) == (".bashrc\n", "1\n")


def test_links_on_the_disk_lead_a_boot_nowhere_outside(machine: Machine):
    packages = root_plan.package_directories()
    top = Path(*packages[0].parts[:2]) if packages else Path("/tmp")
    running = any(each.is_relative_to(top) for each in root_plan.interpreter_prefixes())
    if top == Path("/tmp") or running:  # a memory file system, or the interpreter that boots
        pytest.skip("nothing is mounted below a directory of the disk here")
    below = packages[0].parts[2]
    (trap := machine.directory / "trap" / below).mkdir(parents=True, exist_ok=True)
    if machine.user is not None:
        hand_over(machine.directory)
    machine.run(
        f"umount $(cut -d' ' -f2 /proc/self/mounts | grep ^{top}/)",
        f"find {top} -xdev -depth -empty -delete",
        f"ln -sT /lost+found{trap.parent} {top}",
    )
    machine.boot("true")
    assert list(trap.iterdir()) == []


def test_programs_find_the_chips(machine: Machine):
    sys_files, dev_files, opened = machine.run(
        "cd /sys/bus/pci/devices && grep . */vendor */device */class",
        "ls /dev/vfio",
        "exec 7<>/dev/vfio/2; readlink /proc/self/fd/7",
    )
    assert sys_files.count("0x1ae0") == 4
    assert "0000:00:05.0/device:0x0063" in sys_files.splitlines()
    assert "0000:00:07.0/class:0xff0000" in sys_files.splitlines()
    assert dev_files.split() == ["0", "1", "2", "3", "vfio"]
    assert opened == "/dev/vfio/2\n"


def test_terminals_are_the_workers_own(machine: Machine):
    (first,) = machine.run(f"""{machine.python} -S -c 'import pty; pty.spawn(["tty"])'""")
    assert first.strip() == "/dev/pts/0"


def test_it_knows_its_own_name_and_its_peers(machine: Machine):
    name, hosts, processes, lock = machine.run(
        "cat /etc/hostname",
        "getent hosts t1v-n-0a1b2c3d-w-0",
        "ls /proc | grep -c '^[0-9]'",
        "stat -c %a /tmp /dev/shm /run/lock",
    )
    assert name == HOSTNAME + "\n"
    assert hosts.split() == ["10.128.0.2", "t1v-n-0a1b2c3d-w-0"]
    assert int(processes) < 6
    assert lock.split() == ["1777"] * 3


def test_root_of_the_machine_is_not_root_of_the_worker(machine: Machine):
    """Also where it is the machine's root that runs the simulator."""
    _, results = machine.boot(
        "for name in /proc/sys/kernel /proc/sys/vm/swappiness /sys /etc/hosts;"
        " do test ! -w $name || echo $name; done",
        "chmod 666 /dev/null",
        "echo works > /dev/null",
    )
    assert results[0] == (0, "")
    assert results[1][0] == 1
    assert results[2] == (0, "")


def test_a_user_name_that_leads_elsewhere_is_refused(machine: Machine):
    for name in ("..", "a/b", "a:0:0"):
        notes, results = machine.boot(f"!user {name}", "ls -A /home")
        assert results == [(1, f"no user can have the name {name!r}"), (0, "")]


def test_users_are_root_with_a_home_of_their_own(machine: Machine):
    who, home, sudo = machine.run(
        "!user ada",
        "!user ada",
        "whoami",
        "eval echo ~ada; ls -A ~ada; grep -c ^ada: /etc/passwd",
        "sudo -n -u root -E A=1 sh -c 'echo $A; id -u'",
    )
    assert who == "root\n"
    assert home.split() == ["/home/ada", ".bashrc", "1"]
    assert sudo.split() == ["1", "0"]


def test_a_user_whom_a_full_disk_did_not_take_is_added_at_a_later_login(machine: Machine):
    login = "cd ~ada 2>/dev/null; pwd; cat .bashrc 2>/dev/null; grep -c ^ada: /etc/passwd || true"
    full, empty = machine.run("!fill", "!user ada", login, "!free", "!user ada", login)
    assert full.split()[-1] == "0"
    assert empty.split()[0] == "/home/ada"
    assert "PS1=" in empty
    assert empty.split()[-1] == "1"


def test_files_put_on_every_worker_are_below_opt_localsim(machine: Machine):
    hook, library = machine.run("cat /opt/localsim/python/hook.py", "ls /lib/libtpu.so")
    assert hook == "found = True\n"
    assert library


def test_a_full_disk_takes_no_data_until_it_is_freed(machine: Machine):
    write = "{ echo data > %s; } 2>/dev/null"
    places = ["/home/a/new", "/srv/new", "/usr/local/new", "/tmp/new", "/var/new", "/etc/new"]
    attempts = "; ".join(f"{write % place} && echo {place}" for place in places)
    _, results = machine.boot(
        "mkdir /home/a && echo old > /home/a/old && cp /home/a/old /home/a/older",
        "!fill",
        f"{attempts}; dd if=/dev/zero of=/home/a/old bs=1M count=1 conv=notrunc",
        "rm /home/a/older && touch /home/a/empty && cat /home/a/old /etc/hosts",
        "!settle",
        "!free",
        f"{attempts}; ls /home/a",
    )
    assert "No space left on device" in results[2][1]
    assert "/new" not in results[2][1]
    assert results[3] == (0, "old\n" + HOSTS)
    assert results[6] == (0, "\n".join([*places, "empty", "new", "old", ""]))
    assert machine.disk.used_bytes() > 0


def test_deletions_on_a_full_disk_can_be_measured_at_once(machine: Machine):
    machine.run("dd if=/dev/zero of=/srv/big bs=1M count=3 2>/dev/null")
    before = machine.disk.used_bytes()
    machine.run("!fill", "rm /srv/big", "!settle")  # and the power fails
    assert before - machine.disk.used_bytes() >= 3 << 20


def test_without_overlays_a_worker_has_private_copies_and_cannot_change_the_rest(machine: Machine):
    machine.refuse_overlays = True
    notes, results = machine.boot(
        "echo mine > /etc/mine && cat /etc/hosts",
        "cat /opt/localsim/python/hook.py",
        "touch /usr/mine",
        f"{sys.executable} -S -c 'print(1)'",
    )
    plan = machine.plan()
    planned = [plan["root"], *plan["mounts"]]
    overlays = [mount["path"] for mount in planned if mount["kind"] == "overlay"]
    assert [note.split(":")[0] for note in notes] == overlays
    assert [code for code, _ in results[:2]] == [0, 0], results
    assert results[2][0] != 0
    assert results[3] == (0, "1\n")
    assert not Path("/etc/mine").exists()


def test_links_that_programs_leave_on_the_disk_lead_nowhere_outside(machine: Machine):
    target = machine.directory / "outside"
    target.mkdir()
    target.chmod(0o777)
    machine.run(f"rm -rf /srv && ln -s {target} /srv; mv /home /gone; ln -s {target} /home")
    machine.run("ls /home /srv")
    assert list(target.iterdir()) == []


def test_the_layer_holds_only_what_every_user_may_read(tmp_path: Path):
    source = tmp_path / "etc"
    (source / "private").mkdir(parents=True, mode=0o700)
    (source / "private" / "key").write_text("secret")
    (source / "open").write_text("open")
    (source / "closed").write_text("secret")
    (source / "closed").chmod(0o600)
    (source / "link").symlink_to("open")
    system_layer._copy_readable(source, tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["link", "open"]


def test_links_to_the_interpreter_are_made_again(tmp_path: Path):
    (tmp_path / "python-3.11.9").mkdir()
    (tmp_path / "python-3.11").symlink_to("python-3.11.9")
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "python").symlink_to(tmp_path / "python-3.11" / "python3")
    found = dict(root_plan._links_on(tmp_path / "venv" / "python", [str(tmp_path / "venv")]))
    assert found == {str(tmp_path / "python-3.11"): "python-3.11.9"}
