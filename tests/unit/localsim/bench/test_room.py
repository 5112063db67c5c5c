"""A slice that this machine has no room for is refused before anything starts."""

import pytest

from localsim.bench import BenchError, machine_limits
from tpuctl import catalog

GIB = 1 << 30


def check(name, **machine):
    machine = {"processors": 2, "available_bytes": 16 * GIB, **machine}
    machine_limits.check_machine(catalog.accelerator_type(name), 16 << 20, **machine)


def test_the_chips_of_one_host_fit():
    check("v5litepod-8", processors=1, available_bytes=GIB)


def test_too_many_workers_for_the_processors():
    check("v5litepod-64", processors=2)
    with pytest.raises(BenchError, match="has 64 workers, .* 2 processors runs 16 at most") as told:
        check("v5litepod-256", processors=2)
    assert told.value.exit_code == 2
    check("v5litepod-256", processors=8, available_bytes=64 * GIB)


def test_too_little_memory_for_the_arrays_of_all_chips():
    with pytest.raises(BenchError, match="takes 1168 MiB of memory here, and 1024 MiB are avail"):
        check("v5litepod-16", available_bytes=GIB)
    with pytest.raises(BenchError, match="v5litepod-1 takes 512 MiB"):
        check("v5litepod-1", available_bytes=GIB // 4)


def test_a_container_has_no_more_than_it_may(tmp_path):
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text("MemTotal: 4096 kB\nMemAvailable: 2048 kB\nBuffers: 1 kB\n")
    assert machine_limits.available_bytes(meminfo, limit) == 2 << 20
    limit.write_text("max\n")
    assert machine_limits.available_bytes(meminfo, limit) == 2 << 20
    limit.write_text("1000\n")
    assert machine_limits.available_bytes(meminfo, limit) == 1000


def test_where_nothing_tells_nothing_is_refused(tmp_path):
    check(
        "v5litepod-16",
        available_bytes=machine_limits.available_bytes(tmp_path / "a", tmp_path / "b"),
    )
