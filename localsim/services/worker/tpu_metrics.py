"""libtpu's metric service: what a worker's chips hold and do, as its programs report it.

One server for all workers, at a port of this machine's loopback: whose chips a caller means is told
by the connection, which comes from the relay behind port 8431 of that worker (chip_lock_server.py).
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from localsim.guest.localsim_chips.executions import FINITE_BUCKETS, GROWTH, SCALE_US
from localsim.loopback import LOOPBACK
from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.service_ports import GRPC_OPTIONS
from localsim.services.net.descriptor_fields import add_field
from localsim.services.net.relayed_peers import RelayedPeers
from localsim.services.net.wire_errors import abort_call
from localsim.workers.chip_holders import ChipHolders, ExecutionTimes

PACKAGE = "tpu.monitoring.runtime"
TENSOR_CORE = 1
"""The value of the enum TpuCoreTypeProto."""
CORE_TYPE = "TPU_CORE_TYPE_TENSOR_CORE"
SERVICE = f"{PACKAGE}.RuntimeMetricService"
_MAX_FILTER = 200
_MAX_WILDCARDS = 4
Point = tuple[int, dict[str, Any]]
"""A device or chip, and the field of Metric that has its value."""
BUCKET_OPTIONS = {
    "exponential_buckets": {
        "num_finite_buckets": FINITE_BUCKETS,
        "growth_factor": GROWTH,
        "scale": SCALE_US,
    }
}


def _gauge(**value: int | float) -> dict[str, Any]:
    return {"gauge": value}


def _distribution(times: ExecutionTimes) -> dict[str, Any]:
    told = {
        "count": times.count,
        "mean": times.mean_us,
        "sum_of_squared_deviation": times.squared_deviation,
        "bucket_options": BUCKET_OPTIONS,
        "bucket_counts": times.buckets,
    }
    return {"distribution": told}


METRICS: dict[str, tuple[str, Callable[[ChipHolders], Iterable[Point]]]] = {
    "tpu.runtime.hbm.memory.total.bytes": (
        "Total HBM of each device, in bytes",
        lambda holders: (
            (device.number, _gauge(as_int=device.total_bytes)) for device in holders.devices()
        ),
    ),
    "tpu.runtime.hbm.memory.usage.bytes": (
        "HBM in use on each device, in bytes",
        lambda holders: (
            (device.number, _gauge(as_int=device.used_bytes)) for device in holders.devices()
        ),
    ),
    "tpu.runtime.tensorcore.dutycycle.percent": (
        "Percentage of the sampling time that the TensorCores of a chip were busy",
        lambda holders: (
            (chip, _gauge(as_double=share)) for chip, share in enumerate(holders.duty_cycles())
        ),
    ),
    "tpu.runtime.tensorcore.idle_duration.seconds": (
        "Seconds since the TensorCores of a device were last busy",
        lambda holders: (
            (device.number, _gauge(as_double=device.idle_s)) for device in holders.devices()
        ),
    ),
    "tpu.runtime.hbm.utilization.percent": (
        "Percentage of the bandwidth of HBM that each device used",
        lambda holders: (
            (device, _gauge(as_double=100 * work.hbm_bandwidth))
            for device, work in holders.work().items()
        ),
    ),
    "hlo.queue.size.gauge": (
        "Programs that wait for each device",
        lambda holders: (
            (device, _gauge(as_int=work.queue)) for device, work in holders.work().items()
        ),
    ),
    "hlo.execution.timing.distribution.microseconds": (
        "Time that each execution of a program took on each device, in microseconds",
        lambda holders: (
            (device, _distribution(work.executions)) for device, work in holders.work().items()
        ),
    ),
}
ORDINAL_METRICS = "hlo."
"""How the names begin whose points name their device among other attributes."""


_FIELDS = {
    "MetricRequest": "1 metric_name string, 2 skip_node_aggregation bool",
    "MetricResponse": "1 metric .TPUMetric",
    "TPUMetric": "1 name string, 2 description string, 3 metrics .Metric*",
    "Metric": "1 attribute .Attribute, 2 timestamp google.protobuf.Timestamp, 3 gauge .Gauge, "
    "5 distribution .Distribution",
    "Distribution": "1 count int64, 2 mean double, 5 sum_of_squared_deviation double, "
    "6 bucket_options .BucketOptions, 7 bucket_counts int64*",
    "BucketOptions": "2 exponential_buckets .ExponentialBuckets",
    "ExponentialBuckets": "1 num_finite_buckets int32, 2 growth_factor double, 3 scale double",
    "Attribute": "1 key string, 2 value .AttrValue",
    "AttrValue": "1 string_attr string?, 3 int_attr int64?, 6 kvlist_attr .KeyValueList",
    "KeyValueList": "1 attributes .Attribute*",
    "Gauge": "1 as_double double?, 2 as_int int64?",
    "ListSupportedMetricsRequest": "1 filter string",
    "ListSupportedMetricsResponse": "1 supported_metric .SupportedMetric*",
    "SupportedMetric": "1 metric_name string",
    "GetTpuRuntimeStatusRequest": "1 include_hlo_info bool",
    "GetTpuRuntimeStatusResponse": "1 host_name string, 2 core_states .CoreState*",
    "CoreState": "1 key int64?, 2 value .CoreSummary",  # an entry of a map, as it is on the wire
    "CoreSummary": "1 core_id .CoreIdentifier",
    "CoreIdentifier": "1 global_core_id int32?, 2 chip_id int32?, 3 core_on_chip .CoreOnChip",
    "CoreOnChip": "1 type int32?, 2 index int32?",
}
"""Number, name and type of each field, as `add_field` takes it."""


def _messages() -> dict[str, Any]:
    file = FileDescriptorProto(name="tpu_metrics.proto", package=PACKAGE, syntax="proto3")
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    file.message_type.extend(_message(name, fields) for name, fields in _FIELDS.items())
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _FIELDS
    }


def _message(name: str, fields: str) -> DescriptorProto:
    message = DescriptorProto(name=name)
    for field in fields.split(", "):
        number, field_name, kind = field.split()
        add_field(message, int(number), field_name, kind, PACKAGE)
    return message


MESSAGES = _messages()
"""The messages of the service by name, as far as the simulated chips have something to say.

Names and numbers are those of the descriptors in tpu-info 0.14.2; fields that are never sent are
left out, which protocol buffers allow. They lie in a pool of their own: a program that has the real
descriptors is not in their way.
"""


class MetricServer:
    """The metric server, and the worker that each connection asks about."""

    def __init__(self) -> None:
        """The server listens while a worker needs it."""
        self.peers: RelayedPeers[tuple[str, ChipHolders]] = RelayedPeers()
        """By whose connection it is: the name of the worker, and who holds its chips."""
        self._server: Any = None
        self._users = 0
        self._changing = asyncio.Lock()
        self.port = 0

    async def begin(self) -> None:
        """Serve one more worker; raises OSError."""
        async with self._changing:
            if self._server is None:
                server = grpc.aio.server(options=GRPC_OPTIONS)
                server.add_generic_rpc_handlers((_handler(self._of),))
                try:
                    self.port = server.add_insecure_port(f"{LOOPBACK}:0")
                except RuntimeError as error:
                    raise OSError(str(error)) from error
                await server.start()
                self._server = server
            self._users += 1

    async def end(self) -> None:
        """Serve one worker less; the last one ends the server."""
        async with self._changing:
            self._users -= 1
            if not self._users:
                server, self._server = self._server, None
                await server.stop(None)

    def _of(self, peer: str) -> tuple[str, ChipHolders]:
        worker = self.peers.find(peer)
        if worker is None:
            raise CloudError(Code.PERMISSION_DENIED, "Only for programs of a worker.")
        return worker


def _handler(worker_of: Callable[[str], tuple[str, ChipHolders]]) -> Any:
    """The gRPC handler of every method; `worker_of` returns whose chips a peer asks about."""
    answers = {
        "GetRuntimeMetric": ("MetricRequest", _metric),
        "ListSupportedMetrics": ("ListSupportedMetricsRequest", _supported),
        "GetTpuRuntimeStatus": ("GetTpuRuntimeStatusRequest", _status),
    }
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(_calling(worker_of, *answer))
        for name, answer in answers.items()
    }
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _calling(
    worker_of: Callable[[str], tuple[str, ChipHolders]],
    request: str,
    answer: Callable[[Any, str, ChipHolders], Any],
) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def call(body: bytes, context: Any) -> bytes:
        try:
            worker = worker_of(context.peer())
            asked = MESSAGES[request].FromString(body)
            reply: bytes = answer(asked, *worker).SerializeToString()
        except DecodeError:
            refusal = CloudError(Code.INVALID_ARGUMENT, f"This is no {request}.")
            await abort_call(context, refusal)
        except CloudError as error:
            await abort_call(context, error)
        return reply

    return call


def _metric(request: Any, _hostname: str, holders: ChipHolders) -> Any:
    if request.metric_name not in METRICS:
        raise CloudError(Code.NOT_FOUND, f"No values of metric '{request.metric_name[:100]}'.")
    description, points = METRICS[request.metric_name]
    now = {"seconds": int(time.time())}
    attribute = _ordinal if request.metric_name.startswith(ORDINAL_METRICS) else _device_id
    metrics = [
        {"attribute": attribute(number), "timestamp": now, **value}
        for number, value in points(holders)
    ]
    metric = {"name": request.metric_name, "description": description, "metrics": metrics}
    return MESSAGES["MetricResponse"](metric=metric)


def _device_id(number: int) -> dict[str, Any]:
    return {"key": "device-id", "value": {"int_attr": number}}


def _ordinal(number: int) -> dict[str, Any]:
    """The attributes by which tpu-info finds the device of a program; newer libtpu has texts."""
    attributes = [
        {"key": "device_ordinal", "value": {"string_attr": str(number)}},
        {"key": "core_type", "value": {"string_attr": CORE_TYPE}},
    ]
    return {"key": "attributes", "value": {"kvlist_attr": {"attributes": attributes}}}


def _supported(request: Any, _hostname: str, _holders: ChipHolders) -> Any:
    pattern = _pattern(request.filter)
    names = [{"metric_name": name} for name in METRICS if pattern.search(name)]
    return MESSAGES["ListSupportedMetricsResponse"](supported_metric=names)


def _pattern(text: str) -> re.Pattern[str]:
    """A regular expression that cannot take for ever: no groups, few repetitions."""
    wildcards = sum(map(text.count, "*+?{"))
    if len(text) > _MAX_FILTER or "(" in text or wildcards > _MAX_WILDCARDS:
        raise CloudError(Code.INVALID_ARGUMENT, "The filter is too complicated.")
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError):
        message = "The filter is not a regular expression."
        raise CloudError(Code.INVALID_ARGUMENT, message) from None


def _status(_request: Any, hostname: str, holders: ChipHolders) -> Any:
    states = [
        {
            "key": number,
            "value": {
                "core_id": {
                    "global_core_id": number,
                    "chip_id": chip,
                    "core_on_chip": {"type": TENSOR_CORE, "index": core},
                }
            },
        }
        for number, (chip, core) in enumerate(holders.tensorcores)
    ]
    return MESSAGES["GetTpuRuntimeStatusResponse"](host_name=hostname, core_states=states)
