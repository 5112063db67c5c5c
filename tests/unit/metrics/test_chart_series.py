"""Samples as the lines of charts: what is joined, what is broken, and how much is sent."""

import json
import math

from tpuctl.metrics.chart_series import MOST_LINES, Chart, charts
from tpuctl.metrics.samples import Sample, WorkerSamples

T = 1_800_000_000.0


def samples(*times: float, name: str = "program.loss", value: float = 2.5) -> list[Sample]:
    return [Sample(T + time_s, {name: value}) for time_s in times]


def only(found: list[Chart]) -> Chart:
    (chart,) = found
    return chart


def test_a_line_goes_on_where_samples_come_late_and_breaks_where_the_worker_is_silent():
    told = [WorkerSamples(1, 0, samples(0, 10, 21, 29.9, 41, 90, 100))]
    found = charts(told)
    assert found.times == [T + 10 * index for index in range(11)]
    (line,) = only(found.charts).lines
    assert (line.attempt, line.label, line.first) == (1, "worker 0", 0)
    assert line.values == [2.5, 2.5, 2.5, None, 2.5, None, None, None, None, 2.5, 2.5]
    assert line.gaps == [5, 6, 7, 8]


def test_a_line_of_one_figure_a_minute_breaks_where_one_is_missing():
    told = [WorkerSamples(1, 0, samples(0, 60, 120, 300))]
    (line,) = only(charts(told, silent_s=150.0).charts).lines
    assert line.gaps == list(range(13, 30))
    (often,) = only(charts(told).charts).lines
    assert {1, 7, 13} <= set(often.gaps)


def test_attempts_are_lines_of_their_own_and_nothing_is_drawn_between_them():
    told = [WorkerSamples(1, 0, samples(0, 10)), WorkerSamples(2, 0, samples(300, 310))]
    lines = only(charts(told).charts).lines
    assert [(line.attempt, line.first, line.values, line.gaps) for line in lines] == [
        (1, 0, [2.5, 2.5], []), (2, 30, [2.5, 2.5], []),
    ]  # fmt: skip


def test_a_zero_is_a_value_and_what_is_not_finite_or_not_measured_is_none():
    values = [0.0, math.nan, math.inf, 1.0]
    told = [Sample(T + 10 * n, {"program.loss": value}) for n, value in enumerate(values)]
    found = charts([WorkerSamples(1, 0, told), WorkerSamples(1, 1, samples(0, name="host.x"))])
    (line,) = only(found.charts).lines
    assert line.values == [0.0, None, None, 1.0]
    assert charts([]).charts == charts([WorkerSamples(1, 0, [])]).charts == ()


def test_percentages_are_of_all_devices_and_what_the_program_prints_comes_before_the_host():
    values = {
        "chip.duty_cycle_percent/0": 80.0, "chip.duty_cycle_percent/1": 40.0,
        "chip.hbm_used_bytes/0": 4.0, "chip.hbm_used_bytes/1": 0.0,
        "chip.hbm_total_bytes/0": 16.0, "chip.hbm_total_bytes/1": 16.0,
        "program.step": 7.0, "program.steps_per_s": 2.0, "program.accuracy": 0.5,
        "program.loss": 3.0,
        "host.cpu_percent": 12.0, "host.memory_used_bytes": 1.0, "host.memory_total_bytes": 4.0,
        "host.network_received_bytes_per_s": 2.0**20, "host.network_sent_bytes_per_s": 2.0**20,
    }  # fmt: skip
    found = charts([WorkerSamples(1, 0, [Sample(T, values)])])
    assert [(each.title, each.unit, each.lines[0].values) for each in found.charts] == [
        ("Chips busy", "%", [60.0]), ("HBM used", "%", [12.5]), ("Steps", "per s", [2.0]),
        ("loss", "", [3.0]), ("accuracy", "", [0.5]), ("Processors of the host", "%", [12.0]),
        ("Memory of the host", "%", [25.0]), ("Network of the host", "MiB/s", [2.0]),
    ]  # fmt: skip


def test_of_256_workers_over_a_day_three_lines_are_sent_in_less_than_100_kb():
    times = [60.0 * index for index in range(1440)]
    told = [WorkerSamples(1, number, samples(*times, value=number)) for number in range(256)]
    found = charts(told)
    lines = only(found.charts).lines
    assert [(line.label, line.values[0]) for line in lines] == [
        ("highest of 256 workers", 255.0), ("median of 256 workers", 127.5),
        ("lowest of 256 workers", 0.0),
    ]  # fmt: skip
    few = charts(told[:MOST_LINES])
    assert len(few.charts[0].lines) == MOST_LINES
    for each in (found, few):
        assert len(json.dumps(each)) < 100_000
