"""Unchanged JAX programs on simulated workers, each started by plain `ssh worker python3`.

The programs know nothing of tpuctl or of the simulator: `jax.distributed.initialize()` without
arguments finds the other workers as on a TPU VM.
"""

import json
import sys
from importlib.util import find_spec

import pytest
from clouds import ISOLATIONS, isolation_of

from system.frameworks.jax_slices import CHIPS, PROGRAMS, Lab, has_openssh, open_lab, reports

pytestmark = [
    pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed"),
    pytest.mark.skipif(not has_openssh(), reason="OpenSSH's client is not installed"),
]
REPORT = PROGRAMS / "report.py"


@pytest.fixture(scope="module", params=ISOLATIONS)
def jax_lab(request, tmp_path_factory):
    """A simulator in each mode, where the kernel allows it."""
    mode = isolation_of(request)
    yield from open_lab(tmp_path_factory.mktemp(mode), mode)


def check(found: list[dict], processes: int, *, first: int = 0) -> None:
    """Every worker of a slice knows its place in the job, and all of them the same sums."""
    devices = CHIPS * processes
    assert [each["process"] for each in found] == list(range(first, first + len(found)))
    for each in found:
        assert (each["processes"], each["devices"]) == (processes, devices)
        assert each["local_devices"] == CHIPS
        assert each["psum"] == sum(range(devices))
        assert each["gathered"] == list(range(processes))


def test_one_and_two_workers_side_by_side_on_default_ports(jax_lab: Lab):
    """Where workers are hosts, all of them open the profiler's fixed port as well."""
    slices = [jax_lab.node("one", 1), jax_lab.node("two", 2)]
    for each in slices:
        each.put(REPORT)
    program = ["python3", "report.py", *["--profiler"] * (jax_lab.mode == "namespace")]
    alone, pair = reports(*(each.start(*program) for each in slices))
    check(alone, 1)
    check(pair, 2)
    if jax_lab.mode == "namespace":
        for told in (each["environment"] for each in (*alone, *pair)):
            sys.stdout.write(f"{json.dumps(told)}\n")  # for `pytest -s`
            assert not [name for name in told if name.startswith("JAX_COORDINATOR")]
            tpu = [name for name in told if name.startswith(("TPU_", "MEGASCALE_"))]
            assert tpu == ["TPU_LIBRARY_PATH"]


def test_the_slices_of_one_request_join_as_one_job(jax_lab: Lab):
    made = jax_lab.tpuctl(
        "qr", "create", "multi", "-t", "v4-8", "--zone", "us-central2-b",
        "--node-count", "2", "--node-prefix", "multi",
    )  # fmt: skip
    assert made.code == 0, made.err
    waited = jax_lab.tpuctl("qr", "wait", "multi", "--zone", "us-central2-b")
    assert waited.code == 0, waited.err
    slices = [jax_lab.slice(f"multi-{number}") for number in range(2)]
    for each in slices:
        each.put(REPORT)
    found = reports(*(each.start("python3", "report.py") for each in slices))
    for number, of_slice in enumerate(found):
        check(of_slice, 2, first=number)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [4, 16])
def test_more_workers(jax_lab: Lab, workers):
    many = jax_lab.node(f"n{workers}", workers)
    many.put(REPORT)
    check(reports(many.start("python3", "report.py"))[0], workers)
