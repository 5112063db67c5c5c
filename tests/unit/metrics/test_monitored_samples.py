"""Time series of Cloud Monitoring become samples of the workers they are about."""

import re
from pathlib import Path

import pytest

from tpuctl.api.monitoring import TimePoint, TimeSeries
from tpuctl.metrics.monitored_samples import METRICS, MonitoredNode, samples_of, series_filter
from tpuctl.metrics.samples import Sample, WorkerSamples

ZONE = "us-west4-a"
PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
CODE = re.compile(r"`([a-z_/.0-9]+)`")
HOSTS = {f"t1v-n-1a2b3c4d-w-{number}": number for number in range(2)}
NODE = MonitoredNode("n1", ZONE, 0.0, 1e4, HOSTS)


def worker(number: str = "0", node: str = "n1") -> dict[str, str]:
    return {"project_id": "p", "zone": ZONE, "node_id": node, "worker_id": number}


def gauge(resource, *values: float, start_s: float = 60.0, **labels: str) -> TimeSeries:
    points = [
        TimePoint(end_s, end_s, value)
        for value, end_s in zip(values, (start_s + 60 * n for n in range(9)), strict=False)
    ]
    return TimeSeries(labels, resource, points)


def read(*found: tuple[str, TimeSeries], nodes=(NODE,)) -> list[WorkerSamples]:
    return samples_of([(metric, ZONE, series) for metric, series in found], nodes)


def test_a_host_has_the_mean_of_its_cores_and_rates_of_its_counts():
    received = TimeSeries({}, worker(), [TimePoint(60.0, 120.0, 600.0)])
    found = read(
        ("cpu/utilization", gauge(worker(), 10.0, 20.0, core="0")),
        ("cpu/utilization", gauge(worker(), 30.0, 40.0, core="1")),
        ("memory/usage", gauge(worker(), 5.0)),
        ("network/received_bytes_count", received),
    )
    assert found == [
        WorkerSamples(
            0,
            0,
            [
                Sample(60.0, {"host.cpu_percent": 20.0, "host.memory_used_bytes": 5.0}),
                Sample(
                    120.0,
                    {"host.cpu_percent": 30.0, "host.network_received_bytes_per_s": 10.0},
                ),
            ],
        )
    ]


def test_chips_belong_to_the_worker_whose_vm_they_name_and_have_the_number_of_their_device():
    other = {"resource_container": "1", "location": ZONE, "worker_id": "t1v-n-9-w-0"}
    own = {**other, "worker_id": "t1v-n-1a2b3c4d-w-1"}
    found = read(
        ("accelerator/duty_cycle", gauge(own, 83.0, accelerator_id="2605441806135329501-2")),
        ("accelerator/memory_used", gauge(own, 7.0, accelerator_id="3")),
        ("accelerator/duty_cycle", gauge(other, 99.0, accelerator_id="1-0")),
        ("tpu/tensorcore/idle_duration", gauge(worker("1"), 4.0, chip="2")),
    )
    values = {"chip.duty_cycle_percent/2": 83.0, "chip.hbm_used_bytes/3": 7.0, "chip.idle_s/2": 4.0}
    assert found == [WorkerSamples(0, 1, [Sample(60.0, values)])]


def test_points_count_for_the_attempt_in_whose_time_they_lie():
    first = MonitoredNode("n1", ZONE, 0.0, 100.0, attempt=1)
    second = MonitoredNode("n1", ZONE, 110.0, 300.0, attempt=2, first=4)
    found = read(("memory/usage", gauge(worker(), 1.0, 2.0, 3.0)), nodes=(first, second))
    assert [(each.attempt, each.worker_id, len(each.samples)) for each in found] == [
        (1, 0, 1),
        (2, 4, 2),
    ]


def test_a_series_of_another_node_or_of_no_number_is_left_out():
    assert read(("memory/usage", gauge(worker(node="n2"), 1.0))) == []
    assert read(("memory/usage", gauge(worker("w-0"), 1.0))) == []
    assert samples_of([("memory/usage", "us-east1-d", gauge(worker(), 1.0))], [NODE]) == []


@pytest.mark.parametrize(
    ("metric", "nodes", "end"),
    [
        ("memory/usage", [NODE], 'resource.labels.node_id = "n1"'),
        (
            "memory/usage",
            [NODE, MonitoredNode("n2", ZONE, 0.0, 1.0)],
            'resource.labels.node_id = starts_with("n")',
        ),
        (
            "accelerator/duty_cycle",
            [NODE],
            'resource.labels.worker_id = starts_with("t1v-n-1a2b3c4d-w-")',
        ),
    ],
)
def test_a_filter_names_the_metric_and_the_workers_within_googles_length(metric, nodes, end):
    where = series_filter(metric, ZONE, nodes)
    assert where.startswith(f'metric.type = "tpu.googleapis.com/{metric}" AND resource.type = ')
    assert where.endswith(end)
    assert ZONE in where
    assert len(where) < 2048


def test_without_host_names_no_chips_are_asked_for():
    unknown = MonitoredNode("n1", ZONE, 0.0, 1.0)
    asked = {name: series_filter(name, ZONE, [unknown]) is not None for name in METRICS}
    assert {name for name, is_asked in asked.items() if not is_asked} == {
        name for name in METRICS if name.startswith("accelerator/")
    }


def test_the_page_names_every_metric_and_what_it_is_here():
    page = (
        PAGE.read_text("utf-8").partition("\n## From Cloud Monitoring\n")[2].partition("\n## ")[0]
    )
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    named = {
        metric: name
        for metrics, names in rows
        for metric, name in zip(CODE.findall(metrics), CODE.findall(names), strict=True)
    }
    assert named == {metric: about.name for metric, about in METRICS.items()}
