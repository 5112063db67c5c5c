"""What simulated workers cost a JAX job, from its command to the end of its first step."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.measure import alternate, keep
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.local import local_cloud

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed"),
]

TPUCTL = str(Path(sys.executable).with_name("tpuctl"))
HERE = Path(__file__).parent
PROGRAM = HERE / "first_step.py"


@pytest.mark.parametrize("mode", ["process", "namespace"])
def test_two_workers_from_the_command_to_the_end_of_the_first_step(mode, request, tmp_path):
    if mode == "namespace":
        request.getfixturevalue("namespaces")
    home = tmp_path / "t"
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TPUCTL_HOME": str(home)}
    zone = ["--zone", "us-central2-b"]
    local_cloud.up(home, "local", local_cloud.SimulatorOptions(isolation=mode, offline=True))
    try:
        for argv in (
            ["node", "create", "two", "-t", "v4-16", *zone],
            ["node", "cp", str(PROGRAM), "two:first_step.py", *zone],
        ):
            assert main(argv, Runtime(environ=environ)) == 0
        ours = [TPUCTL, "node", "exec", "two", *zone, "--", "python3", "first_step.py"]
        peer = [sys.executable, str(HERE / "by_hand.py"), "2", str(PROGRAM)]
        found = alternate(ours, peer, environ=environ)
    finally:
        local_cloud.down(home, "local")
    keep(
        f"JAX, 2 workers x 4 devices to the end of the first step, {mode} mode",
        "at most 1.3 x the same processes started by hand",
        ours_s=found.ours_s,
        peer_s=found.peer_s,
        ratio=round(found.ratio, 2),
    )
