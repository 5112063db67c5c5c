"""What the programs on a worker's chips tell, as its metrics."""

import json
import statistics

import pytest

from localsim.guest.localsim_chips.executions import Executions
from localsim.guest.localsim_chips.holding import Usage
from localsim.workers.chip_holders import ChipHolders, ChipUsage, MalformedUsageError, read_usage
from tpuctl.catalog import accelerator_type

GIB = 2**30


class Watch:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def watch():
    return Watch()


def holders(kind, watch):
    return ChipHolders(accelerator_type(kind), watch)


@pytest.mark.parametrize(
    ("kind", "devices", "gib", "duty_points", "tensorcores"),
    [
        ("v2-8", 8, 7.48, 4, 8),
        ("v3-8", 8, 15.48, 4, 8),
        ("v4-8", 4, 30.75, 4, 8),
        ("v5litepod-8", 8, 15.75, 8, 8),
        ("v5p-8", 4, 95.74, 4, 8),
        ("v6e-1", 1, 31.25, 1, 1),
        ("tpu7x-8", 8, 94.75, 8, 8),  # tpu-info awaits a duty cycle per device there
    ],
)
def test_devices_are_counted_as_frameworks_count_them(
    watch, kind, devices, gib, duty_points, tensorcores
):
    found = holders(kind, watch)
    assert [each.total_bytes / GIB for each in found.devices()] == pytest.approx([gib] * devices)
    assert len(found.duty_cycles()) == duty_points
    assert len(found.tensorcores) == tensorcores


def test_what_several_programs_hold_adds_up(watch):
    found = holders("v5litepod-4", watch)
    found.begin("a")
    found.begin("b")
    found.tell("a", ChipUsage((1, 2, 3, 4), 0.75))
    found.tell("b", ChipUsage((10, 0, 0, 0), 0.75))
    assert [each.used_bytes for each in found.devices()] == [11, 2, 3, 4]
    assert found.duty_cycles() == (100.0,) * 4
    found.end("a")
    assert [each.used_bytes for each in found.devices()] == [10, 0, 0, 0]
    assert found.duty_cycles() == (75.0,) * 4


def test_no_device_holds_more_than_it_has(watch):
    found = holders("v6e-1", watch)
    found.begin("a")
    found.tell("a", ChipUsage((10**15,), 0))
    assert [each.used_bytes for each in found.devices()] == [31.25 * GIB]


def test_chips_are_idle_since_a_program_was_last_busy_on_them(watch):
    found = holders("v6e-1", watch)
    watch.now_s = 150.0
    found.begin("a")
    watch.now_s = 160.0
    assert found.devices()[0].idle_s == 10
    found.tell("a", ChipUsage((0,), 0.1))
    watch.now_s = 163.0
    found.tell("a", ChipUsage((0,), 0.0))
    assert found.devices()[0].idle_s == 3


def told(*times_us, bandwidth=0.25):
    """What a program with one chip reports that has executed so many programs."""
    found = Executions()
    for time_us in times_us:
        found.note(time_us / 1e6)
    return {**found.report(), "hbm_bandwidth": bandwidth}


def report(*chips):
    return read_usage(json.dumps(Usage([0], 0.5, list(chips)).line()).encode())


def test_executions_of_several_programs_are_one_distribution(watch):
    found = holders("v6e-1", watch)
    for holder, usage in (("a", report(told(1, 2, 4))), ("b", report(told(100, 3000)))):
        found.begin(holder)
        found.tell(holder, usage)
    (work,) = found.work().values()
    times = work.executions
    every = [1, 2, 4, 100, 3000]
    assert (times.count, times.mean_us) == (5, pytest.approx(statistics.mean(every)))
    assert times.squared_deviation == pytest.approx(5 * statistics.pvariance(every))
    assert times.buckets == tuple(told(*every)["buckets"])
    assert work.hbm_bandwidth == 0.5


def test_what_a_chip_executes_is_told_of_both_its_devices_and_of_no_other_program(watch):
    found = holders("v3-8", watch)
    found.begin("jax")
    found.tell("jax", ChipUsage((1,) * 8, 0.5))
    assert found.work() == {}
    found.begin("core")
    found.tell("core", report(*(told(chip + 1) for chip in range(4))))
    means = [each.executions.mean_us for each in found.work().values()]
    assert means == pytest.approx([1, 1, 2, 2, 3, 3, 4, 4])


@pytest.mark.parametrize(
    "wrong",
    [{"count": -1}, {"buckets": [1]}, {"hbm_bandwidth": 2}, {"mean_us": float("nan")},
     {"queue": None}, {"count": 10**30}],
)  # fmt: skip
def test_executions_that_make_no_sense_are_refused(wrong):
    with pytest.raises(MalformedUsageError):
        report({**told(1), **wrong})


def test_a_line_is_read_as_it_was_told():
    assert read_usage(b'{"bytes": [1, 2], "busy": 0.5}') == ChipUsage((1, 2), 0.5)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"bytes": 3, "busy": 0}',
        b'{"bytes": [-1], "busy": 0}',
        b'{"bytes": [1], "busy": 1.5}',
        b'{"bytes": [1], "busy": NaN}',
        b'{"bytes": [Infinity], "busy": 0}',
        b'{"bytes": ["x"], "busy": 0}',
        b"\xff",
    ],
)
def test_a_line_that_makes_no_sense_is_refused(line):
    with pytest.raises(MalformedUsageError):
        read_usage(line)
