"""Google's own `tpu-vm ssh` and `scp`, unchanged, in `tpuctl local shell`.

A call costs one to three seconds: each does as much as it can.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from clouds import MATRIX

from system.clients.gcloud_cli import GCLOUD
from system.workers.inside_vpc import NODE, Inside, node_in_vpc

pytestmark = [
    MATRIX,
    pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed"),
]

TEXT = "a line that goes to every worker\n"


@dataclass(frozen=True)
class TpuVm:
    """`tpu_vm("ssh", …)`, with a key pair that gcloud made."""

    inside: Inside

    def __call__(self, *argv: str) -> subprocess.CompletedProcess:
        return self.inside(
            *("gcloud", "compute", "tpus", "tpu-vm", *argv),
            CLOUDSDK_CONFIG=str(self.inside.home / "gcloud"),
            CLOUDSDK_CORE_DISABLE_PROMPTS="1",
        )


@pytest.fixture(scope="module")
def tpu_vm(namespaces, tmp_path_factory) -> Iterator[TpuVm]:
    """The first login makes a key, which gcloud puts into the node's metadata."""
    with node_in_vpc(tmp_path_factory.mktemp("gcloud-ssh")) as inside:
        tpu_vm = TpuVm(inside)
        done = tpu_vm("ssh", NODE, "--worker=2", "--command", "hostname; echo no >&2; exit 7")
        assert done.returncode == 7, done.stderr
        assert done.stdout.splitlines()[-1] == inside.workers[2].hostname
        assert "no\n" in done.stderr
        yield tpu_vm


def test_the_key_that_gcloud_made_is_in_the_metadata_and_nobody_else_s_is_touched(tpu_vm):
    key = (tpu_vm.inside.home / ".ssh" / "google_compute_engine.pub").read_text().split()[1]
    keys = tpu_vm.inside.api("GET")["metadata"]["ssh-keys"]
    assert key in keys
    assert "tpuctl" in keys  # the one that the node was created with


def test_all_workers_at_once_whose_host_keys_are_known_from_then_on(tpu_vm):
    home = tpu_vm.inside.home
    done = tpu_vm("ssh", NODE, "--worker=all", "--command", "hostname; exit 3")
    assert done.returncode == 3, done.stderr
    names = sorted(each.hostname for each in tpu_vm.inside.workers)
    assert sorted(done.stdout.split()) == names
    (home / "there.txt").write_text(TEXT)
    strict = "--strict-host-key-checking=yes"
    up = tpu_vm("scp", "there.txt", f"{NODE}:", "--worker=all", strict)
    assert up.returncode == 0, up.stderr
    down = tpu_vm("scp", f"{NODE}:there.txt", "back.txt", "--worker=3", strict)
    assert down.returncode == 0, down.stderr
    assert (home / "back.txt").read_text() == TEXT
