"""Each line about this machine: what makes it fail, and that its printed fix makes it pass."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from client.health.printed_fixes import type_in_shell
from tpuctl.api import server_clock
from tpuctl.api.ssh import keys
from tpuctl.config import Context
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health import registry
from tpuctl.operations.health.checks.machine import disk_space
from tpuctl.operations.health.doctor import ask_check
from tpuctl.operations.health.scope import DoctorClients, DoctorScope

NOW_S = 1_800_000_000.0
CONTEXT = Context("lab", "p-1", "us-west4-a", "b-1")
FAIL, WARN = HealthState.FAIL, HealthState.WARN


class KeyFileTokens:
    """The tokens of a key file, as far as the doctor looks at them."""

    account = "robot@p-1.iam.gserviceaccount.com"


@dataclass
class Machine:
    """A machine as the checks see it: a directory, and variables."""

    directory: Path
    environ: dict[str, str] = field(default_factory=dict)
    context: Context = CONTEXT

    @property
    def home(self) -> Path:
        return Path(self.environ["TPUCTL_HOME"])

    @property
    def scope(self) -> DoctorScope:
        clients = DoctorClients(KeyFileTokens, None, None)
        is_set = (self.directory / "clock-is-set").exists()
        return DoctorScope(
            self.home,
            self.environ,
            lambda: NOW_S if is_set else NOW_S + 3600,
            self.context,
            clients,
        )

    def line(self, name: str) -> HealthCheck | None:
        """The worst line of that name."""
        rows = [row for row in registry.MACHINE_CHECKS if "Python" not in row.name]
        found = [line for row in rows for line in ask_check(row, self.scope) if line.name == name]
        order = list(HealthState)
        return max(found, key=lambda line: order.index(line.state), default=None)

    def mend(self, fix: str, shell: str = "sh") -> None:
        self.environ = type_in_shell(fix, self.environ, self.directory, shell)

    def file(self, path: str, text: str = "", mode: int = 0o600) -> Path:
        whole = self.directory / path
        whole.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        whole.write_text(text)
        whole.chmod(mode)
        return whole


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(server_clock, "server_time_s", lambda *_args, **_more: NOW_S)
    return Machine(
        tmp_path,
        {
            "HOME": str(tmp_path / "person"),
            "TPUCTL_HOME": str(tmp_path / "home"),
            "TMPDIR": str(tmp_path / "tmp"),
            "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        },
    )


def set_variable(name: str, value: str) -> Callable[[Machine], None]:
    return lambda machine: machine.environ.update({name: value})


def open_home(machine: Machine) -> None:
    machine.home.chmod(0o755)


def close_home(machine: Machine) -> None:
    machine.home.chmod(0o500)


def damage_config(machine: Machine) -> None:
    machine.file("home/config.yaml", "contexts: [")


def gcloud_has(section: str, name: str, value: str) -> Callable[[Machine], None]:
    def break_it(machine: Machine) -> None:
        machine.file("gcloud/configurations/config_default", f"[{section}]\n{name} = {value}\n")

    return break_it


def key_open_to_others(machine: Machine) -> None:
    keys.load_access(machine.home, "direct")
    (machine.home / "ssh/id_ed25519").chmod(0o644)


def key_without_private_half(machine: Machine) -> None:
    keys.load_access(machine.home, "direct")
    (machine.home / "ssh/id_ed25519").unlink()


def halves_of_two_keys(machine: Machine) -> None:
    keys.load_access(machine.home, "direct")
    (machine.home / "ssh/id_ed25519.pub").write_text("ssh-ed25519 AAAAother tpuctl\n")


def damaged_key(machine: Machine) -> None:
    machine.file("home/ssh/id_ed25519", "not a key\n")


def unknown_jump_host(machine: Machine) -> None:
    machine.context = replace(CONTEXT, dialer="jump://ada@bastion:2222")
    (machine.home / "ssh").mkdir(mode=0o700)


def full_temporary_disk(machine: Machine) -> None:
    machine.environ["TMPDIR"] = str(machine.directory / "tmp")
    (machine.directory / "tmp/is-full").touch()


def full_home_disk(machine: Machine) -> None:
    (machine.home / "rehearsals/r-1").mkdir(parents=True)


def slow_clock(_machine: Machine) -> None:
    """The clock of every machine here is wrong until it is set."""


SCENARIOS = (
    ("TPUCTL_HOME", open_home, WARN, "other people may enter", True),
    ("TPUCTL_HOME", close_home, FAIL, "cannot be written", True),
    ("config.yaml", damage_config, FAIL, "is not YAML", False),
    ("disk of TMPDIR", set_variable("TMPDIR", "/nowhere"), FAIL, "is not a directory", False),
    ("disk of TMPDIR", full_temporary_disk, FAIL, "1.0 MiB free", False),
    ("disk of TPUCTL_HOME", full_home_disk, WARN, "500.0 MiB free", False),
    (
        "endpoint variables", set_variable("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1"), FAIL,
        "STORAGE_EMULATOR_HOST is set while context 'lab' uses real credentials", False,
    ),
    (
        "endpoint variables", set_variable("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", "x"), FAIL,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU is set", False,
    ),
    ("proxy variables", set_variable("HTTPS_PROXY", "http://:x"), FAIL, "not the URL", False),
    (
        "proxy variables", set_variable("HTTP_PROXY", "http://u:secret@proxy:3128"), WARN,
        "HTTP_PROXY takes what is for 127.0.0.1, localhost, 169.254.169.254", False,
    ),
    (
        "gcloud's configuration", gcloud_has("core", "project", "other"), WARN,
        "gcloud's project is other, and the context's is p-1", False,
    ),
    (
        "gcloud's configuration", gcloud_has("compute", "zone", "us-east1-d"), WARN,
        "gcloud's zone is us-east1-d, and the context's is us-west4-a", False,
    ),
    (
        "gcloud's configuration", gcloud_has("core", "account", "me@example.com"), WARN,
        "gcloud's account is me@example.com", False,
    ),
    (
        "gcloud's configuration", gcloud_has("api_endpoint_overrides", "tpu", "http://x/"), WARN,
        "gcloud sends what is for tpu elsewhere", False,
    ),
    ("SSH key", key_open_to_others, FAIL, "other people may read", True),
    ("SSH key", key_without_private_half, FAIL, "is gone", False),
    ("SSH key", halves_of_two_keys, FAIL, "is not the public half", False),
    ("SSH key", damaged_key, FAIL, "is not an SSH key", False),
    ("jump host", unknown_jump_host, FAIL, "the host key of [bastion]:2222 is not in", False),
    ("clock", slow_clock, FAIL, "it is 60 m ahead of that of Cloud Storage", False),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "break_it", "state", "evidence", "is_safe"),
    SCENARIOS,
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_line_fails_and_its_fix_as_printed_mends_it(
    machine, monkeypatch, name, break_it, state, evidence, is_safe
):
    monkeypatch.setattr(disk_space, "free_bytes", lambda path: free_of(machine, path))
    break_it(machine)
    line = machine.line(name)
    assert (line.state, line.is_safe) == (state, is_safe)
    assert evidence in line.evidence
    assert "secret" not in str(line)
    machine.mend(line.fix)
    mended = machine.line(name)
    assert mended.state == HealthState.PASS, mended


def free_of(machine: Machine, path: Path) -> int:
    """Full is a place that has a file `is-full`; half full a home with what rehearsals left."""
    if (path / "is-full").exists():
        return 1 << 20
    return 500 << 20 if (path / "rehearsals").exists() else 1 << 40


def test_a_process_that_holds_the_contexts_is_named_and_ended_by_the_fix(machine):
    path = machine.file("home/config.lock")
    code = (
        "import fcntl, os, sys, time; f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX);"
        "f.write(str(os.getpid())); f.flush(); print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-ISc", code, str(path)], stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        line = machine.line("lock of config.yaml")
        assert (line.state, line.fix) == (FAIL, f"kill {holder.pid}")
        machine.mend(line.fix)
        holder.wait()
    assert machine.line("lock of config.yaml").state == HealthState.PASS


def test_a_shell_without_completion_is_a_warning(machine):
    for shell in ("zsh", "fish", "bash"):
        machine.environ["SHELL"] = f"/usr/bin/{shell}"
        line = machine.line("completion")
        assert (line.state, line.fix) == (WARN, "tpuctl --install-completion")
    machine.mend(f'tpuctl() {{ {sys.executable} -P -m tpuctl "$@"; }}; {line.fix}', shell)
    assert machine.line("completion").state == HealthState.PASS


def test_on_a_machine_that_is_well_nothing_is_wrong(machine):
    machine.file("clock-is-set")
    lines = [each for row in registry.MACHINE_CHECKS for each in ask_check(row, machine.scope)]
    assert {each.state for each in lines} == {HealthState.PASS}
    assert {row.name for row in registry.MACHINE_CHECKS} - {each.name for each in lines} == {
        "lock of config.yaml", "jump host", "completion",
    }  # fmt: skip
