"""libtpu's metric service, asked without a gRPC library, beside what gRPC's own server answers."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tpu_info.proto import tpu_metric_service_pb2 as messages

from tpuctl.agent.metrics import chip_probe, runtime_service
from tpuctl.agent.metrics.chip_probe import ChipProbe

DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
USED = "tpu.runtime.hbm.memory.usage.bytes"
EXECUTION = "hlo.execution.timing.distribution.microseconds"
QUEUE = "hlo.queue.size.gauge"
SENT = "megascale.host_to_device_transfer_latencies.microsecond.cumulative.distribution"
METHOD = "/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric"


class Service(grpc.GenericRpcHandler):
    """Answers with the points that a test gives it; NOT_FOUND for any other metric."""

    def __init__(self):
        self.points = {}

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(
            self.answer,
            request_deserializer=messages.MetricRequest.FromString,
            response_serializer=messages.MetricResponse.SerializeToString,
        )

    def answer(self, request, context):
        if request.metric_name not in self.points:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such metric")
        metric = messages.TPUMetric(name=request.metric_name)
        for device, fields in enumerate(self.points[request.metric_name]):
            attribute = messages.Attribute(
                key="device-id", value=messages.AttrValue(int_attr=device)
            )
            metric.metrics.append(messages.Metric(**{"attribute": attribute, **fields}))
        return messages.MetricResponse(metric=metric)


@pytest.fixture
def service(monkeypatch):
    handler = Service()
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, handlers=[handler])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        monkeypatch.setenv(runtime_service.PORTS_VARIABLE, f"{port}")
        yield handler
        server.stop(None).wait()


def gauges(*values):
    kind = "as_double" if isinstance(values[0], float) else "as_int"
    return [{"gauge": messages.Gauge(**{kind: value})} for value in values]


def observed(count, mean):
    return [{"distribution": messages.Distribution(count=count, mean=mean)}]


def listed(*attributes):
    """An attribute that is a list of others, as libtpu has it for programs and transfers."""
    values = [
        messages.Attribute(key=key, value=messages.AttrValue(**value)) for key, value in attributes
    ]
    return messages.Attribute(
        value=messages.AttrValue(kvlist_attr=messages.KeyValueList(attributes=values))
    )


def test_gauges_of_every_device_are_read_and_absent_metrics_are_missing(service):
    service.points = {DUTY: gauges(83.5, 0.0), USED: gauges(2**40, 0)}
    assert ChipProbe().measure() == {
        "chip.held": 1.0,
        "chip.duty_cycle_percent/0": 83.5,
        "chip.duty_cycle_percent/1": 0.0,
        "chip.hbm_used_bytes/0": 2**40,
        "chip.hbm_used_bytes/1": 0,
    }


def test_of_a_distribution_comes_the_mean_of_what_is_new(service):
    probe, name = ChipProbe(), "chip.execution_us/0"
    service.points = {EXECUTION: observed(10, 100.0)}
    assert probe.measure()[name] == 100.0
    assert name not in probe.measure()  # nothing new
    service.points = {EXECUTION: observed(20, 150.0)}
    assert probe.measure()[name] == 200.0
    service.points = {EXECUTION: observed(2, 30.0)}
    assert probe.measure()[name] == 30.0  # another program counts again


def test_a_device_is_found_among_attributes_whether_it_is_a_text_or_a_number(service):
    ordinals = [{"string_attr": "0"}, {"int_attr": 1}, {"string_attr": "2"}]
    kinds = ("core_type", {"string_attr": "TPU_CORE_TYPE_TENSOR_CORE"})
    service.points = {
        QUEUE: [
            {"attribute": listed(kinds, ("device_ordinal", each)), **gauges(10 * number)[0]}
            for number, each in enumerate(ordinals)
        ]
    }
    assert ChipProbe().measure() == {
        "chip.held": 1.0, "chip.queue_size/0": 0, "chip.queue_size/1": 10, "chip.queue_size/2": 20,
    }  # fmt: skip


def test_transfers_of_every_size_are_one_mean(service):
    probe = ChipProbe()
    for small, large, mean in ((1, 3, 175.0), (11, 3, 100.0)):
        service.points = {
            SENT: [
                {"attribute": listed(("buffer-size", {"string_attr": size})), **observed(*told)[0]}
                for size, told in (("1KB", (small, 100.0)), ("8MB", (large, 200.0)))
            ]
        }
        assert probe.measure() == {"chip.held": 1.0, "chip.host_to_device_us/0": mean}


def test_answers_larger_than_a_window_arrive_whole(service):
    service.points = {name: gauges(*range(4000)) for name in (DUTY, USED)}
    found = ChipProbe().measure()
    assert found["chip.hbm_used_bytes/3999"] == 3999
    assert len(found) == 8001


def test_programs_on_one_chip_each_are_numbered_on(service, monkeypatch):
    service.points = {DUTY: gauges(10.0)}
    port = runtime_service.ports()[0]
    monkeypatch.setenv(runtime_service.PORTS_VARIABLE, f"{port},{port}")
    assert ChipProbe().measure().keys() == {
        "chip.held", "chip.duty_cycle_percent/0", "chip.duty_cycle_percent/1",
    }  # fmt: skip


def test_without_a_program_it_is_only_known_whether_the_chips_are_held(monkeypatch):
    monkeypatch.setenv(runtime_service.PORTS_VARIABLE, "1")
    for held in (0.0, 1.0):
        monkeypatch.setattr(chip_probe, "are_held", lambda held=held: held > 0)
        assert ChipProbe().measure() == {"chip.held": held}


@pytest.mark.parametrize(
    "answer",
    [b"\x0a\xff", b"\x0a\x02\x1a\x05", b"\x08" + b"\xff" * 12, b"\x0b", b"\x08\x01" * 2],
)
def test_a_message_that_makes_no_sense_is_refused(answer):
    with pytest.raises(runtime_service.MALFORMED):
        runtime_service.readings(answer)
