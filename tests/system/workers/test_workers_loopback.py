"""Workers' SSH on loopback addresses: for clients outside that know of no VPC and no proxy."""

import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from clouds import Cloud, Runner, serve

from localsim.services.ssh.loopback_ssh import loopback_address


@pytest.fixture(scope="module")
def loopback_cloud(tmp_path_factory) -> Iterator[Cloud]:
    """A simulator with loopback doors; four workers are up as node `n1`."""
    options = ("--isolation", "process", "--loopback-doors", "--manual-clock")
    for cloud in serve(tmp_path_factory.mktemp("loopback-home"), *options):
        tpuctl = Runner(cloud.home, sleep=cloud.control.advance)
        assert tpuctl("node", "create", "n1", "-t", "v5litepod-16").code == 0
        yield cloud


@pytest.mark.skipif(not shutil.which("ssh"), reason="needs OpenSSH")
def test_openssh_finds_every_worker_by_the_node_s_own_addresses(loopback_cloud: Cloud, tmp_path):
    tpuctl = Runner(loopback_cloud.home)
    node = tpuctl("node", "describe", "n1", "-o", "json").json
    user = tpuctl(
        "node", "exec", "n1", "--worker", "0", "--", "sh", "-c", "echo $USER"
    ).out.split()[-1]
    addresses = node["addresses"] + node["external_addresses"]
    assert len(addresses) == 8
    for address in addresses:
        shown = subprocess.run(
            [
                *("ssh", "-F", f"{loopback_cloud.line['state_dir']}/ssh_config"),
                *("-i", f"{loopback_cloud.home}/ssh/id_ed25519", "-o", "IdentitiesOnly=yes"),
                *("-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={tmp_path}/known"),
                *("-o", "BatchMode=yes", f"{user}@{address}", "echo $TPU_WORKER_ID"),
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert shown == f"{addresses.index(address) % 4}\n"


def test_a_second_simulator_is_refused_with_the_reason(loopback_cloud: Cloud, tmp_path):
    argv = [sys.executable, "-P", "-m", "localsim", "serve", "--state-dir", str(tmp_path / "other")]
    refused = subprocess.run(
        [*argv, "--isolation", "process", "--loopback-doors"], capture_output=True, text=True
    )
    assert refused.returncode == 60
    assert refused.stderr == (
        "error: --loopback-doors: something answers at 127.128.0.1:2222 already\n"
    )
    assert refused.stdout == ""


def test_the_address_is_the_worker_s_own_but_for_its_first_number():
    assert loopback_address("10.128.77.2") == "127.128.77.2"
