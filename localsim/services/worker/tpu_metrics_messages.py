"""The messages of libtpu's metric service, as far as the simulated chips have something to say.

Names and numbers are those of the descriptors in tpu-info 0.14.2; fields that are never sent are
left out, which protocol buffers allow. They lie in a pool of their own: a program that has the real
descriptors is not in their way.
"""

from typing import Any

from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from localsim.services.net.descriptor_fields import add_field

PACKAGE = "tpu.monitoring.runtime"
TENSOR_CORE = 1
"""Of the enum TpuCoreTypeProto."""
_FIELDS = {
    "MetricRequest": "1 metric_name string, 2 skip_node_aggregation bool",
    "MetricResponse": "1 metric .TPUMetric",
    "TPUMetric": "1 name string, 2 description string, 3 metrics .Metric*",
    "Metric": "1 attribute .Attribute, 2 timestamp google.protobuf.Timestamp, 3 gauge .Gauge",
    "Attribute": "1 key string, 2 value .AttrValue",
    "AttrValue": "3 int_attr int64?",
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
"""By name."""
