"""What the programs on a worker's chips tell, as its metrics."""

import pytest

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
        ("v2-8", 8, 8, 4, 8),
        ("v3-8", 8, 16, 4, 8),
        ("v4-8", 4, 32, 4, 8),
        ("v5litepod-8", 8, 15.75, 8, 8),
        ("v5p-8", 4, 95, 4, 8),
        ("v6e-1", 1, 31.25, 1, 1),
        ("tpu7x-8", 8, 96, 8, 8),  # tpu-info awaits a duty cycle per device there
    ],
)
def test_devices_are_counted_as_frameworks_count_them(
    watch, kind, devices, gib, duty_points, tensorcores
):
    found = holders(kind, watch)
    assert [each.total_bytes / GIB for each in found.devices()] == [gib] * devices
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
