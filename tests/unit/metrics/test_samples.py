"""Which samples somebody wants to see, and what they say of the chips."""

import pytest

from tpuctl.metrics.chip_state import ChipState, ChipUse, chip_use
from tpuctl.metrics.samples import Sample, WorkerSamples, choose, device_values, merge, names_metric


@pytest.mark.parametrize(
    ("pattern", "name", "is_named"),
    [
        ("loss", "program.loss", True),
        ("program.loss", "program.loss", True),
        ("hbm_*", "chip.hbm_used_bytes/3", True),
        ("chip.hbm_used_bytes/3", "chip.hbm_used_bytes/3", True),
        ("chip.hbm_used_bytes/2", "chip.hbm_used_bytes/3", False),
        ("program.*", "host.cpu_percent", False),
        ("los", "program.loss", False),
    ],
)
def test_a_pattern_names_metrics_with_or_without_where_they_come_from(pattern, name, is_named):
    assert names_metric(pattern, name) is is_named


def test_samples_of_one_worker_come_together_in_order_and_once():
    first, second = Sample(1.0, {"a": 1.0}), Sample(2.0, {"a": 2.0})
    parts = [
        WorkerSamples(1, 0, [second]),
        WorkerSamples(1, 1, []),
        WorkerSamples(1, 0, [first, second]),
    ]
    assert merge(parts) == [WorkerSamples(1, 0, [first, second]), WorkerSamples(1, 1, [])]


def test_what_is_chosen_is_new_enough_and_named():
    series = [
        WorkerSamples(
            1, 0, [Sample(time_s, {"host.a": 1.0, "host.b": 2.0}) for time_s in (1.0, 5.0)]
        )
    ]
    assert list(choose(series, 2.0, ("b",))) == [
        WorkerSamples(1, 0, [Sample(5.0, {"host.b": 2.0})])
    ]
    assert list(choose(series, 2.0, ("c",))) == [WorkerSamples(1, 0, [])]


def test_devices_are_in_the_order_of_their_numbers():
    values = {f"chip.duty_cycle_percent/{device}": float(device) for device in (10, 2, 0)}
    assert device_values(Sample(0.0, values), "chip.duty_cycle_percent") == [0.0, 2.0, 10.0]


@pytest.mark.parametrize(
    ("values", "now_s", "use"),
    [
        ({"chip.duty_cycle_percent/0": 80.0, "chip.duty_cycle_percent/1": 86.0, "chip.held": 1.0},
         105.0, ChipUse(ChipState.LOADED, 83.0)),
        ({"chip.duty_cycle_percent/0": 0.0}, 105.0, ChipUse(ChipState.LOADED, 0.0)),
        ({"chip.held": 1.0}, 105.0, ChipUse(ChipState.HELD)),
        ({"chip.held": 0.0}, 105.0, ChipUse(ChipState.FREE)),
        ({"host.cpu_percent": 5.0}, 105.0, ChipUse(ChipState.UNKNOWN)),
        ({"chip.duty_cycle_percent/0": 80.0}, 112.0, ChipUse(ChipState.SILENT, silent_s=12.0)),
    ],
)  # fmt: skip
def test_a_chip_is_never_said_to_be_idle_where_nothing_was_measured(values, now_s, use):
    assert chip_use(Sample(100.0, values), now_s, silent_after_s=10.0) == use
