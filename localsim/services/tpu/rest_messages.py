"""The messages of REST: Google's own, and the fields that only its REST interface has.

Google's generated clients lag behind its discovery document. What the document has and they lack
is added here to copies of their descriptors, so that such a field is read, checked, kept and shown
like any other; the copies live in pools of their own, and gRPC never sees them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pool, empty_pb2, struct_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool

from localsim.services.net.descriptor_fields import add_field
from localsim.services.tpu.proto_messages import GRPC_MESSAGES, Messages
from tpuctl import catalog

FIRST_NUMBER = 100_000
"""REST has no field numbers; these only have to be free."""

OPERATION_METADATA = "google.cloud.common.OperationMetadata"
"""The message that a recording of Google's REST answers has in operations (k8s-config-connector,
mockgcp/mocktpu); Google's gRPC clients know the one of their own package."""

_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_STRUCT = "google.protobuf.Struct"
_MODELS = ("PROVISIONING_MODEL_UNSPECIFIED", "STANDARD", "SPOT", "RESERVATION_BOUND")

_ENUMS = {
    "SchedulingConfig": ("ProvisioningModel", _MODELS),
    "QueuedResource": ("ProvisioningModel", (*_MODELS, "FLEX_START")),
}
_NEW_VALUES = ("TPU7X", "V6EA", "TPU7")
"""Of AcceleratorConfig.Type, as Google's discovery document has them."""

_NEW_MESSAGES = {"RunDuration": {"max_run_duration": _DURATION, "termination_time": _TIMESTAMP}}

_FROM_ALPHA = ("BootDiskConfig", "CustomerEncryptionKey", "UpcomingMaintenance")
"""Messages that the generated v2 lacks and the generated v2alpha1 has."""

_FIELDS: Mapping[str, Mapping[str, str]] = {
    "SchedulingConfig": {
        "provisioning_model": ".SchedulingConfig.ProvisioningModel",
        "reservation_name": "string",
        "termination_timestamp": _TIMESTAMP,
    },
    "QueuedResource": {
        "provisioning_model": ".QueuedResource.ProvisioningModel",
        "run_duration": ".RunDuration",
        "traffic_config": _STRUCT,
    },
    "AttachedDisk": {"worker_ids": "string*"},
    "BootDiskConfig": {
        "disk_size_gb": "int64",
        "source_image": "string",
        "storage_pool": "string",
        "provisioned_iops": "int64",
        "provisioned_throughput": "int64",
    },
    "Node": {
        "confidential_instance_config": _STRUCT,
        "boot_disk_config": ".BootDiskConfig",
        "upcoming_maintenance": ".UpcomingMaintenance",
    },
}
"""Message -> field -> type, a dot before the API's own; what is there already stays as it is."""


def _messages(version: str) -> Messages:
    original = GRPC_MESSAGES[version]["Node"].DESCRIPTOR.file
    file = _extended(original, original.package)
    pool: Any = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    for needed in (*original.dependencies, empty_pb2.DESCRIPTOR, struct_pb2.DESCRIPTOR):
        _add(needed, pool, added)
    pool.Add(file)
    pool.Add(_operation_metadata(original))
    return Messages(original.package, pool, OPERATION_METADATA)


def _operation_metadata(original: FileDescriptor) -> FileDescriptorProto:
    """What operations say of themselves over REST: the fields of the API's own message.

    A flag that is false is shown as well.
    """
    package, _, name = OPERATION_METADATA.rpartition(".")
    file = FileDescriptorProto(name="common_operation_metadata.proto", package=package)
    file.syntax = "proto3"
    file.dependency.extend(each.name for each in original.dependencies)
    message = file.message_type.add()
    original.message_types_by_name[name].CopyToProto(message)
    (flag,) = (field for field in message.field if field.name == "cancel_requested")
    message.field.remove(flag)
    add_field(message, flag.number, flag.name, "bool?", package)
    return file


def _add(file: FileDescriptor, pool: DescriptorPool, added: set[str]) -> None:
    if file.name not in added:
        added.add(file.name)
        for needed in file.dependencies:
            _add(needed, pool, added)
        pool.AddSerializedFile(file.serialized_pb)


def _extended(original: FileDescriptor, package: str) -> FileDescriptorProto:
    file = FileDescriptorProto()
    original.CopyToProto(file)
    file.dependency.append(struct_pb2.DESCRIPTOR.name)
    file.message_type.extend(_new_messages(original))
    for message in file.message_type:
        if message.name in _ENUMS:
            _add_enum(message, *_ENUMS[message.name])
        for name, kind in _FIELDS.get(message.name, {}).items():
            _add_missing(message, name, kind, package)
        if message.name == "AcceleratorConfig":
            (kinds,) = message.enum_type
            known = {value.name for value in kinds.value}
            offered = (generation.config_enum for generation in catalog.generations())
            names = dict.fromkeys(filter(None, [*_NEW_VALUES, *offered]))
            new = (name for name in names if name not in known)
            for number, name in enumerate(new, FIRST_NUMBER):
                kinds.value.add(name=name, number=number)
    return file


def _new_messages(original: FileDescriptor) -> Iterator[DescriptorProto]:
    for name, fields in _NEW_MESSAGES.items():
        message = DescriptorProto(name=name)
        for field, kind in fields.items():
            _add_missing(message, field, kind, original.package)
        yield message
    for name in _FROM_ALPHA:
        if name not in original.message_types_by_name:
            yield _from_alpha(name, original.package)


def _from_alpha(name: str, package: str) -> DescriptorProto:
    alpha = GRPC_MESSAGES["v2alpha1"]
    message = DescriptorProto()
    alpha[name].DESCRIPTOR.CopyToProto(message)
    for field in message.field:
        if field.type_name:  # setting it at all makes a scalar field a malformed one
            field.type_name = field.type_name.replace(f".{alpha.package}.", f".{package}.")
    return message


def _add_enum(message: DescriptorProto, name: str, values: tuple[str, ...]) -> None:
    enum = EnumDescriptorProto(name=name)
    for number, value in enumerate(values):
        enum.value.add(name=value, number=number)
    message.enum_type.append(enum)


def _add_missing(message: DescriptorProto, name: str, kind: str, package: str) -> None:
    if not any(field.name == name for field in message.field):
        add_field(message, FIRST_NUMBER + len(message.field), name, kind, package)


REST_MESSAGES = {version: _messages(version) for version in GRPC_MESSAGES}
"""What is spoken over REST, by version."""
