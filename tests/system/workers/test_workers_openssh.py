"""Stock OpenSSH, and rsync over it, in `tpuctl local shell`: workers are hosts like any other."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from system.workers.inside_vpc import Inside, Peer, node_in_vpc

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH is not installed")

CONFIG = """
User ada
IdentityFile {home}/key
IdentitiesOnly yes
BatchMode yes
StrictHostKeyChecking yes
UserKnownHostsFile {home}/known_hosts
GlobalKnownHostsFile none
"""


LISTS_BUCKETS = """
import json, urllib.request
of_instance = "http://metadata.google.internal/computeMetadata/v1/instance/"
def ask(path):
    request = urllib.request.Request(of_instance + path, headers={"Metadata-Flavor": "Google"})
    return urllib.request.urlopen(request).read().decode()
print(ask("name"), ask("service-accounts/default/email"), ask("service-accounts/default/scopes"))
bearer = "Bearer " + json.loads(ask("service-accounts/default/token"))["access_token"]
buckets = "https://storage.googleapis.com/storage/v1/b?project=local-project"
found = urllib.request.urlopen(urllib.request.Request(buckets, headers={"Authorization": bearer}))
print(*(bucket["name"] for bucket in json.load(found)["items"]))
try:
    urllib.request.urlopen(buckets)
except urllib.error.HTTPError as refusal:
    print(refusal.code, "without a token")
"""


@dataclass(frozen=True)
class OpenSsh:
    """OpenSSH with a key that the node's metadata names, and host keys that the API tells."""

    inside: Inside
    config: Path

    @property
    def home(self) -> Path:
        return self.inside.home

    @property
    def worker(self) -> Peer:
        return self.inside.workers[1]

    def __call__(self, program: str, *argv: str, stdin: str = "") -> subprocess.CompletedProcess:
        return self.inside(program, "-F", str(self.config), *argv, stdin=stdin)


@pytest.fixture(scope="module")
def openssh(namespaces, tmp_path_factory) -> Iterator[OpenSsh]:
    home = tmp_path_factory.mktemp("openssh")
    key = home / "key"
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-C", "ada", "-f", key], check=True)
    public = key.with_suffix(".pub").read_text().strip()
    with node_in_vpc(home, ssh_keys=f"ada:{public}") as inside:
        (config := home / "config").write_text(CONFIG.format(home=home))
        known = [f"{each.hostname},{each.address} {each.host_key}\n" for each in inside.workers]
        (home / "known_hosts").write_text("".join(known))
        yield OpenSsh(inside, config)


@pytest.mark.parametrize("by", ["hostname", "address"])
def test_ssh_carries_input_output_and_the_exit_status(openssh, by):
    host = getattr(openssh.worker, by)
    done = openssh("ssh", host, "cat; hostname; echo no >&2; exit 7", stdin="given\n")
    told = (done.returncode, done.stdout, done.stderr)
    assert told == (7, f"given\n{openssh.worker.hostname}\n", "no\n")


def test_a_host_that_shows_another_key_is_not_spoken_to(openssh):
    first, second = openssh.inside.workers[:2]
    alias = ("-o", f"HostKeyAlias={first.hostname}")
    done = openssh("ssh", *alias, second.hostname, "true")
    assert done.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr


def test_a_terminal(openssh):
    done = openssh("ssh", "-tt", openssh.worker.hostname, "tty && test -t 0 -a -t 1; exit 5")
    assert (done.returncode, done.stdout) == (5, "/dev/pts/0\n"), done.stderr


def test_one_worker_leads_to_the_next(openssh):
    first, *_, last = openssh.inside.workers
    done = openssh("ssh", "-J", first.hostname, last.address, "hostname")
    assert (done.returncode, done.stdout) == (0, f"{last.hostname}\n"), done.stderr


def test_a_port_of_a_peer_is_forwarded_over_a_kept_connection(openssh):
    first, second = openssh.inside.workers[:2]
    ssh = f"ssh -F {openssh.config} -S {openssh.home}/kept"
    script = f"""
        {ssh} -M -f -N -o ExitOnForwardFailure=yes -L 2222:{second.hostname}:22 {first.hostname}
        exec 3<>/dev/tcp/127.0.0.1/2222 && head -c 8 <&3
        {ssh} {first.hostname} hostname
        {ssh} -O exit {first.hostname}
    """
    done = openssh.inside("bash", "-c", script)
    assert (done.returncode, done.stdout) == (0, f"SSH-2.0-{first.hostname}\n"), done.stderr


@pytest.fixture(scope="module")
def tree(openssh) -> Path:
    """A directory with a program and a file in it."""
    (top := openssh.home / "tree" / "sub").mkdir(parents=True)
    (top / "bytes").write_bytes(bytes(range(256)) * 1000)
    (program := top.parent / "run.sh").write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    return top.parent


def contents(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Path -> permissions and bytes of every file."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(directory)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in files
    }


@pytest.mark.parametrize("mode", ["", "-O"], ids=["sftp", "scp"])
def test_scp_copies_a_tree_there_and_back(openssh, tree, mode, tmp_path):
    far = f"{openssh.worker.hostname}:tree{mode}"
    modes = [mode] if mode else []
    up = openssh("scp", *modes, "-rpq", str(tree), far)
    assert (up.returncode, up.stderr) == (0, "")
    down = openssh("scp", *modes, "-rpq", far, str(tmp_path / "back"))
    assert (down.returncode, down.stderr) == (0, "")
    assert contents(tmp_path / "back") == contents(tree)


def test_sftp_does_what_it_is_told(openssh, tree, tmp_path):
    told = f"""
        put {tree}/run.sh plan.sh
        chmod 700 plan.sh
        mkdir made
        rename plan.sh made/run.sh
        ls -1 made
        get made/run.sh {tmp_path}/run.sh
        -get nothing
        rm made/run.sh
        rmdir made
    """
    done = openssh("sftp", "-q", "-b", "-", openssh.worker.hostname, stdin=told)
    assert done.returncode == 0, done.stderr
    assert "made/run.sh" in done.stdout.split()
    assert (tmp_path / "run.sh").read_bytes() == (tree / "run.sh").read_bytes()


@pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")
def test_a_second_rsync_copies_nothing(openssh, tree, tmp_path):
    far, shell = f"{openssh.worker.hostname}:synced/", f"ssh -F {openssh.config}"
    rsync = ("rsync", "-ai", "--no-owner", "--no-group", "-e", shell)
    first = openssh.inside(*rsync, f"{tree}/", far)
    assert "run.sh" in first.stdout, first.stderr
    again = openssh.inside(*rsync, f"{tree}/", far)
    assert (again.returncode, again.stdout) == (0, ""), again.stderr
    openssh.inside(*rsync, far, str(tmp_path))
    assert contents(tmp_path) == contents(tree)


def test_google_s_own_names_take_the_token_of_the_metadata_server(openssh):
    done = openssh.inside(sys.executable, "-c", LISTS_BUCKETS)
    assert done.stdout.splitlines() == [
        "workstation 424242424242-compute@developer.gserviceaccount.com "
        "https://www.googleapis.com/auth/cloud-platform",
        "local-bucket",
        "401 without a token",
    ], done.stderr
