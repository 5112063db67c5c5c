"""Cloud Monitoring's sliver: Google's client and tpuctl read what workers use."""

import contextlib
import json
import socket
import time
from dataclasses import dataclass, replace

import grpc
import pytest
import requests
from clouds import Runner
from google.api.metric_pb2 import MetricDescriptor

from client.cli.job.job_records import attempt, job, put, store_of
from client.cli.node.four_workers import on_workers, slice_of_four
from localsim.services.other_apis import monitoring_messages
from localsim.services.worker.tpu_metrics import MESSAGES, SERVICE
from tpuctl import network_policy
from tpuctl.models.job import AttemptState, JobState
from tpuctl.operations.local import local_cloud

v3 = pytest.importorskip("google.cloud.monitoring_v3")

PROJECT = "projects/local-project"
TPU = "tpu.googleapis.com"
CPU, MEMORY = f"{TPU}/cpu/utilization", f"{TPU}/memory/usage"
DUTY, USED = f"{TPU}/accelerator/duty_cycle", f"{TPU}/accelerator/memory_used"
IDLE = f"{TPU}/tpu/tensorcore/idle_duration"
GIB = 2**30


@dataclass(frozen=True)
class Measured:
    """A slice of four workers after four samples; a program held worker 0's chips at two."""

    tpuctl: Runner
    first_s: int
    now_s: float
    hostnames: tuple[str, ...]


@contextlib.contextmanager
def program(tpuctl):
    """A program that holds the chips of worker 0: `tell(busy)` returns when that is served."""
    host, _, port = on_workers(tpuctl, "echo -n $LOCALSIM_CHIPS", "0")[0].rpartition(":")
    with socket.create_connection((host, int(port)), 10) as door, door.makefile("rwb") as stream:
        stream.readline()

        def write(words):
            stream.write(json.dumps(words).encode() + b"\n")
            stream.flush()

        write({"hold": 7})
        metrics = f"127.0.0.1:{json.loads(stream.readline())['metrics']}"

        def tell(busy):
            write({"bytes": [GIB] * 4, "busy": busy})
            with grpc.insecure_channel(metrics) as channel:
                while duty_cycle(channel) != 100 * busy:
                    time.sleep(0.005)

        yield tell
    while is_served(metrics):
        time.sleep(0.005)


def duty_cycle(channel):
    call = channel.unary_unary(
        f"/{SERVICE}/GetRuntimeMetric",
        request_serializer=MESSAGES["MetricRequest"].SerializeToString,
        response_deserializer=MESSAGES["MetricResponse"].FromString,
    )
    request = MESSAGES["MetricRequest"](metric_name="tpu.runtime.tensorcore.dutycycle.percent")
    return call(request, timeout=10).metric.metrics[0].gauge.as_double


def is_served(address):
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.fixture(scope="module")
def measured(manual_cloud):
    """Samples of four minutes, all of which are seen; no test of this file changes them."""
    tpuctl = slice_of_four(manual_cloud)
    advance = manual_cloud.control.advance
    first_s = advance(60) // 60 * 60
    with program(tpuctl) as tell:
        for busy in (0.5, 0.25):
            tell(busy)
            advance(60)
    on_workers(tpuctl, "python3 -c 'for _ in range(3000000): pass'", "1")
    advance(60)
    now_s = advance(180)
    names = [row["hostname"] for row in tpuctl("node", "workers", "n1", "-o", "json").json]
    return Measured(tpuctl, int(first_s), now_s, tuple(names))


@pytest.fixture(scope="module")
def google(manual_cloud):
    """Google's generated client on the port of gRPC."""
    from google.cloud.monitoring_v3.services.metric_service.transports import (
        MetricServiceGrpcTransport,
    )

    with grpc.insecure_channel(manual_cloud.line["tpu_grpc"]) as channel:
        yield v3.MetricServiceClient(transport=MetricServiceGrpcTransport(channel=channel))


@pytest.fixture
def listed(google, measured):
    """`listed(filter, **request) -> series` of all four samples and of those after them."""

    def listed(where, **options):
        interval = {
            "start_time": {"seconds": measured.first_s - 1},
            "end_time": {"seconds": int(measured.now_s)},
        }
        request = {"name": PROJECT, "filter": where, "interval": interval, **options}
        return list(google.list_time_series(request=request))

    return listed


def values(series):
    """The time, the kind and the value of each point, the newest first."""
    kinds = [v3.TypedValue.pb(point.value).WhichOneof("value") for point in series.points]
    return [
        (point.interval.end_time.timestamp(), kind, getattr(point.value, kind))
        for point, kind in zip(series.points, kinds, strict=True)
    ]


def value_type(series):
    return MetricDescriptor.ValueType.Name(series.value_type)


def test_duty_cycle_has_points_while_a_program_holds_the_chips_and_never_a_false_0(
    listed, measured
):
    found = listed(f'metric.type = "{DUTY}" AND resource.type = "{TPU}/GceTpuWorker"')
    assert len(found) == 4  # the chips of worker 0; those of the others tell nothing
    assert {series.resource.labels["worker_id"] for series in found} == {measured.hostnames[0]}
    first = found[0]
    assert (first.metric_kind, value_type(first), first.unit) == (
        MetricDescriptor.GAUGE,
        "DOUBLE",
        "%",
    )
    assert first.resource.labels["resource_container"] == "424242424242"
    assert first.resource.labels["location"] == "us-west4-a"
    assert [series.metric.labels["accelerator_id"].rpartition("-")[2] for series in found] == [
        "0", "1", "2", "3",
    ]  # fmt: skip
    second_s = measured.first_s + 60
    assert values(first) == [
        (second_s + 60, "double_value", 25.0),
        (second_s, "double_value", 50.0),
    ]


def test_every_worker_tells_of_its_own_processes(listed, measured):
    found = listed(f'metric.type="{CPU}" resource.labels.node_id="n1"')
    assert [dict(series.resource.labels) for series in found] == [
        {
            "project_id": "local-project",
            "zone": "us-west4-a",
            "node_id": "n1",
            "worker_id": str(n),
        }
        for n in range(4)
    ]
    fourth_s = measured.first_s + 180
    at_fourth = [{at: value for at, _, value in values(series)}[fourth_s] for series in found]
    assert at_fourth[1] > 0  # the one that computed
    memory = listed(f'metric.type="{MEMORY}"')
    assert {kind for series in memory for _, kind, _ in values(series)} == {"int64_value"}


@pytest.mark.parametrize(
    ("where", "workers"),
    [
        ('resource.labels.worker_id = "2"', "2"),
        ('resource.label.worker_id = one_of("1", "3")', "13"),
        ('resource.labels.node_id = starts_with("n") AND resource.labels.worker_id != "0"', "123"),
        ('resource.type = "tpu_worker" AND NOT resource.labels.worker_id = ends_with("0")', "123"),
        ('(resource.labels.worker_id = "0" OR resource.labels.worker_id = "3")', "03"),
        ('resource.labels.zone = has_substring("east")', ""),
    ],
)
def test_a_filter_selects_series_as_cloud_monitoring_does(listed, where, workers):
    found = listed(f'metric.type = "{MEMORY}" AND {where}')
    assert "".join(series.resource.labels["worker_id"] for series in found) == workers


def test_pages_follow_each_other_and_headers_have_no_points(listed, google):
    whole = listed(f'metric.type="{MEMORY}"')
    assert sum(len(series.points) for series in whole) >= 16
    for size in (1, 3):
        parts = {}
        for series in listed(f'metric.type="{MEMORY}"', page_size=size):
            parts.setdefault(series.resource.labels["worker_id"], []).extend(values(series))
        assert parts == {series.resource.labels["worker_id"]: values(series) for series in whole}
    heads = listed(f'metric.type="{MEMORY}"', view="HEADERS", page_size=3)
    assert [series.resource.labels["worker_id"] for series in heads] == ["0", "1", "2", "3"]
    assert not any(series.points for series in heads)


def test_points_are_aligned_to_periods_that_end_with_the_interval(listed, measured):
    def aligned(metric, aligner, period_s=120):
        (series, *_) = listed(
            f'metric.type="{metric}"',
            interval={
                "start_time": {"seconds": measured.first_s - 1},
                "end_time": {"seconds": measured.first_s + 120},
            },
            aggregation={
                "alignment_period": {"seconds": period_s},
                "per_series_aligner": aligner,
            },
        )
        return value_type(series), [value for _, _, value in values(series)]

    assert aligned(DUTY, "ALIGN_MEAN") == ("DOUBLE", [37.5])
    assert aligned(DUTY, "ALIGN_MAX") == ("DOUBLE", [50.0])
    assert aligned(USED, "ALIGN_MIN") == ("INT64", [GIB])
    assert aligned(USED, "ALIGN_SUM", 60) == ("INT64", [GIB, GIB])
    assert aligned(DUTY, "ALIGN_COUNT") == ("INT64", [2])


def test_a_point_is_seen_three_minutes_after_it_was_measured(listed, measured):
    found = listed(f'metric.type="{MEMORY}"')
    newest_s = max(time_s for series in found for time_s, *_ in values(series))
    assert measured.now_s - 240 < newest_s <= measured.now_s - 180


def test_the_descriptors_tell_of_sampling_and_delay(google, measured):
    found = {each.type: each for each in google.list_metric_descriptors(name=PROJECT)}
    assert len(found) == 11
    duty = found[DUTY]
    assert (duty.metadata.sample_period.seconds, duty.metadata.ingest_delay.seconds) == (60, 180)
    assert [label.key for label in duty.labels] == ["accelerator_id"]
    resources = google.list_monitored_resource_descriptors(name=PROJECT)
    assert {each.type: [label.key for label in each.labels] for each in resources} == {
        "tpu_worker": ["project_id", "zone", "node_id", "worker_id"],
        f"{TPU}/GceTpuWorker": ["resource_container", "location", "worker_id"],
    }
    request = {"name": PROJECT, "filter": f'metric.type = starts_with("{TPU}/acc")'}
    assert len(list(google.list_metric_descriptors(request=request))) == 5


def test_the_messages_are_those_of_google(measured):
    """Numbers, types and enums of the fields that are served."""
    for ours in (
        *("TimeSeries", "Point", "TimeInterval", "TypedValue", "Aggregation"),
        *("ListTimeSeriesRequest", "ListTimeSeriesResponse"),
        *("ListMetricDescriptorsRequest", "ListMetricDescriptorsResponse"),
        *("ListMonitoredResourceDescriptorsRequest", "ListMonitoredResourceDescriptorsResponse"),
    ):
        mine = getattr(monitoring_messages, ours).pb().DESCRIPTOR
        theirs = getattr(v3, ours).pb().DESCRIPTOR
        known = {field.number: (field.name, field.type) for field in theirs.fields}
        for field in mine.fields:
            assert known[field.number] == (field.name, field.type), f"{ours}.{field.name}"
        enums = {each.name: each.values_by_name.keys() for each in theirs.enum_types}
        for enum in mine.enum_types:
            assert enum.values_by_name.keys() == enums[enum.name], f"{ours}.{enum.name}"


@pytest.fixture(scope="module")
def rest(manual_cloud):
    """`rest(query, resource) -> (status, document)`."""
    with requests.Session() as session:
        session.trust_env = False

        def get(query, path=f"/v3/{PROJECT}/timeSeries"):
            reply = session.get(manual_cloud.line["monitoring"] + path, params=query, timeout=10)
            return reply.status_code, reply.json()

        yield get


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def test_rest_has_the_same_series(rest, measured, listed):
    second_s = measured.first_s + 60
    status, document = rest(
        {
            "filter": f'metric.type = "{USED}" AND metric.labels.accelerator_id = ends_with("-3")',
            "interval.startTime": stamp(measured.first_s),
            "interval.endTime": stamp(second_s),
        }
    )
    assert status == 200, document
    (series,) = document["timeSeries"]
    assert series["valueType"] == "INT64"
    assert series["points"] == [
        {
            "interval": {"startTime": stamp(second_s), "endTime": stamp(second_s)},
            "value": {"int64Value": str(GIB)},
        }
    ]
    assert rest({"filter": f'metric.type="{IDLE}"', "interval.endTime": stamp(1)}) == (200, {})


END = {"interval.endTime": "2027-01-15T12:00:00Z"}
MEMORY_ALONE = {"filter": f'metric.type="{MEMORY}"'}


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({**END}, 400, "exactly one metric"),
        ({**END, "filter": 'resource.type="tpu_worker"'}, 400, "exactly one metric"),
        ({**END, "filter": f'metric.type="{TPU}/nothing"'}, 404, "Cannot find metric(s)"),
        ({**END, "filter": 'metric.kind="x"'}, 400, "'metric.kind' is none of"),
        ({**END, "filter": 'metric.type = monitoring.regex.full_match("t.*")'}, 400, "full_match"),
        ({**END, "filter": 'metric.type="'}, 400, "cannot be understood"),
        (MEMORY_ALONE, 400, "interval.end_time"),
        (
            {**END, **MEMORY_ALONE, "interval.startTime": "2028-01-01T00:00:00Z"},
            400,
            "must not be after",
        ),
        ({**END, **MEMORY_ALONE, "aggregation.perSeriesAligner": "ALIGN_MEAN"}, 400, "period"),
        (
            {
                **END,
                **MEMORY_ALONE,
                "aggregation.perSeriesAligner": "ALIGN_STDDEV",
                "aggregation.alignmentPeriod": "60s",
            },
            501,
            "ALIGN_STDDEV",
        ),
        (
            {**END, **MEMORY_ALONE, "aggregation.crossSeriesReducer": "REDUCE_MEAN"},
            501,
            "REDUCE_MEAN",
        ),
        ({**END, **MEMORY_ALONE, "orderBy": "x"}, 501, "order_by"),
        ({**END, **MEMORY_ALONE, "pageToken": "!"}, 400, "page_token"),
        ({**END, **MEMORY_ALONE, "pageSize": "-1"}, 400, "page_size"),
        ({**END, **MEMORY_ALONE, "where": "x"}, 400, "where"),
    ],
)
def test_what_is_not_served_is_refused_by_its_name(rest, query, status, words):
    found, document = rest(query)
    assert (found, words in document["error"]["message"]) == (status, True), document


def test_another_project_is_refused(rest, google):
    assert rest({**END, **MEMORY_ALONE}, "/v3/projects/other/timeSeries")[0] == 403
    assert rest({}, f"/v3/{PROJECT}/timeSeries:query")[0] == 501


# tpuctl


@pytest.fixture(scope="module")
def tpuctl(measured):
    """`tpuctl(*argv)` whose wall clock is the simulated one."""
    return replace(measured.tpuctl, now=lambda: measured.now_s)


MONITORED = ("node", "metrics", "n1", "--source", "cloud-monitoring")
NOTE = "Cloud Monitoring: one figure a minute, up to 4 minutes old\n"


def test_tpuctl_shows_the_newest_figures_of_every_worker_without_asking_one(tpuctl):
    shown = tpuctl(*MONITORED, "-o", "json")
    assert (shown.code, shown.err) == (0, NOTE)
    assert [(row["attempt"], row["worker"]) for row in shown.json] == [(0, n) for n in range(4)]
    newest = shown.json[0]
    assert {name.partition(".")[0] for name in newest["values"]} == {"host"}  # no program by then
    table = tpuctl(*MONITORED, "--worker", "1-2")
    assert [row[:2] for row in table.rows] == [
        ["1", "not told"],
        ["2", "not told"],
    ]


def test_chips_have_figures_for_the_time_in_which_a_program_held_them(tpuctl, measured):
    shown = tpuctl(*MONITORED, "--since", "1h", "--metric", "duty_*,hbm_used*", "-o", "json").json
    assert {row["worker"] for row in shown} == {0}
    assert [row["time_s"] - measured.first_s for row in shown] == [60, 120]
    assert [row["values"] for row in shown] == [
        {
            **{f"chip.duty_cycle_percent/{chip}": busy for chip in range(4)},
            **{f"chip.hbm_used_bytes/{chip}": float(GIB) for chip in range(4)},
        }
        for busy in (50.0, 25.0)
    ]
    ranges = tpuctl(*MONITORED, "--since", "1h", "--metric", "duty_cycle_percent", "-o", "csv")
    assert ranges.out.splitlines()[1] == (
        f"0,0,{measured.first_s + 60:.3f},chip.duty_cycle_percent/0,50"
    )


def test_tpuctl_shows_busy_chips_while_the_program_runs(measured):
    """As of the minute at which the second sample was the newest that was seen."""
    then = replace(measured.tpuctl, now=lambda: measured.first_s + 125.0)
    shown = then(*MONITORED)
    first = shown.rows[0]
    assert first[:3] == ["0", "busy 25 %", "4.0 GiB of 63.0 GiB"]
    assert first[3].endswith(" %")
    assert first[4].endswith("B")  # of how much Google does not say


def test_without_figures_one_line_says_when_there_will_be_some(measured):
    early = replace(measured.tpuctl, now=lambda: measured.first_s - 50.0)
    shown = early(*MONITORED)
    assert (shown.code, shown.out) == (40, "")
    assert shown.err == (
        "error: Cloud Monitoring has no figures of node 'n1' of this time\n"
        "hint: they come 4 minutes after it is READY; run: tpuctl node describe n1\n"
    )


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("node", "metrics", "n9", "--source", "cloud-monitoring"), 10, "node 'n9'"),
        ((*MONITORED, "--worker", "7"), 2, "has no worker 7"),
        ((*MONITORED[:4], "stackdriver"), 2, "stackdriver"),
        (("job", "metrics", "nobody", "--source", "cloud-monitoring"), 10, "job 'nobody'"),
    ],
)
def test_what_is_typed_wrong_is_one_line_and_a_hint(tpuctl, argv, code, words):
    shown = tpuctl(*argv)
    assert (shown.code, shown.out) == (code, "")
    assert words in shown.err
    assert shown.err.count("\n") <= 2


def test_a_service_that_is_down_is_one_line(tpuctl, manual_cloud, monkeypatch):
    line = {**manual_cloud.line, "monitoring": "http://127.0.0.1:9"}
    monkeypatch.setattr(local_cloud, "endpoint_line", lambda home, name: line)
    monkeypatch.setattr(network_policy, "LONGEST_PAUSE_S", 0.0)
    shown = tpuctl(*MONITORED)
    assert (shown.code, shown.err) == (
        40,
        "error: Cloud Monitoring cannot be read: 127.0.0.1 cannot be reached: Connection refused\n"
        "hint: run it again in a minute\n",
    )


def test_a_worker_that_cannot_be_reached_is_measured_by_cloud_monitoring(tpuctl, manual_cloud):
    manual_cloud.control.add_fault("worker n1/3: refuses ssh")
    try:
        unreachable = tpuctl("node", "metrics", "n1", "--worker", "3")
    finally:
        manual_cloud.control.clear_faults()
    assert unreachable.code == 40
    assert unreachable.err.endswith("; or run: tpuctl node metrics n1 --source cloud-monitoring\n")
    assert tpuctl(*MONITORED, "--worker", "3").rows[0][0] == "3"


@pytest.fixture(scope="module")
def two_attempts(tpuctl, measured):
    """A job whose first attempt was on the node before it was created again, by the node's id."""
    node_id = int(tpuctl("node", "describe", "n1", "-o", "json").json["id"])
    first_s = measured.first_s
    gone = attempt(1, node="n1", worker_count=4, ready_s=first_s - 1.0, ended_s=first_s + 70.0)
    runs = attempt(
        2, node="n1", worker_count=4, node_ids=(node_id,), state=AttemptState.RUNNING,
        ready_s=first_s + 80.0, ended_s=None, deleted_s=None, outcome=None,
    )  # fmt: skip
    put(store_of(tpuctl.home), job(state=JobState.RUNNING, attempts=(gone, runs)))


def test_a_job_has_the_figures_of_its_attempts_by_their_times(tpuctl, measured, two_attempts):
    monitored = ("job", "metrics", "digits", "--source", "cloud-monitoring", "--worker", "0")
    shown = tpuctl(*monitored, "-o", "json")
    assert shown.code == 0
    seconds = {
        number: [row["time_s"] - measured.first_s for row in shown.json if row["attempt"] == number]
        for number in (1, 2)
    }
    assert seconds[1] == [0, 60]
    assert seconds[2][:2] == [120, 180]
    busy = [row for row in shown.json if "chip.duty_cycle_percent/0" in row["values"]]
    assert [(row["attempt"], row["time_s"] - measured.first_s) for row in busy] == [(2, 120)]
    assert shown.err == NOTE + (
        "warning: attempt 1: its slice is gone, and Cloud Monitoring does not name the chips of a "
        "slice that is\n"
    )
