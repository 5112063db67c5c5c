"""Google's message classes, loaded without the clients in their package.

The package's `__init__` loads both clients, google.auth and requests: four fifths of its import
time. The classes are registered under their canonical names, so that whoever imports the package
later in the same process shares them.
"""

import dataclasses
import importlib.util
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

Fields = Mapping[str, Any]
"""Plain values under the names of a proto file; None is a field that is not set."""
Given = Any
"""Fields, or a dataclass whose attributes have the names of fields."""
NANOS = 1_000_000_000
_Convert = Callable[[Any], Any]


def load_types(package: str, module: str) -> ModuleType:
    """Load `<package>.types.<module>` alone, or by the plain import where its file has moved."""
    canonical = f"{package}.types.{module}"
    if canonical in sys.modules:
        return sys.modules[canonical]
    installed = importlib.util.find_spec(package)
    folders = (installed.submodule_search_locations or ()) if installed else ()
    files = (Path(folder, "types", f"{module}.py") for folder in folders)
    file = next((file for file in files if file.is_file()), None)
    spec = importlib.util.spec_from_file_location(canonical, file) if file else None
    if spec is None or spec.loader is None:
        return importlib.import_module(canonical)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[canonical] = loaded
    spec.loader.exec_module(loaded)
    return loaded


class Messages:
    """The message classes of one package, by name: `messages["QueuedResource.Tpu"]`."""

    def __init__(self, package: str, pool: DescriptorPool) -> None:
        """The classes that a pool of descriptors has under the package, `google.cloud.tpu.v2`."""
        self.version = package.rpartition(".")[2]
        self.package = package
        self.pool = pool
        self._classes: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        found = self._classes.get(name)
        if found is None:
            descriptor = self.pool.FindMessageTypeByName(f"{self.package}.{name}")
            found = self._classes[name] = message_factory.GetMessageClass(descriptor)
        return found

    def get(self, name: str) -> Any:
        """The class of that name, or None."""
        try:
            return self[name]
        except KeyError:
            return None


def build_message(kind: Any, given: Given) -> Any:
    """A message with those of the given fields, at any depth, that its class has."""
    return kind(**_known(kind.DESCRIPTOR, given))


def fields_of(given: Given) -> Fields:
    """The fields of a dataclass by name, not those below them; a mapping is returned as it is."""
    if isinstance(given, Mapping):
        return given
    return {name: getattr(given, name) for name in _names(given.__class__)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _known(descriptor: Descriptor, given: Given) -> Fields:
    plan = _plan(descriptor)
    known: dict[str, Any] = {}
    for name, value in fields_of(given).items():
        if value is not None and name in plan:
            field, convert = plan[name]
            known[field] = value if convert is None else convert(value)
    return known


@cache
def _plan(descriptor: Descriptor) -> Mapping[str, tuple[str, _Convert | None]]:
    """By the name of a value: the message's field for it, and how the value is converted.

    The installed classes write `type` as `type_`. A time or duration may be called `create_time`
    or, as a number of seconds is here, `create_time_s`.
    """
    plan: dict[str, tuple[str, _Convert | None]] = {}
    for field in descriptor.fields:
        row = field.name, _conversion(field)
        plan[field.name.rstrip("_")] = row
        if field.message_type and field.message_type.full_name in _SECONDS:
            plan[f"{field.name}_s"] = row
    return plan


def _conversion(field: FieldDescriptor) -> _Convert | None:
    if field.enum_type is not None:
        values = field.enum_type.values_by_name
        # A generation may be newer than these messages: a field that is None is not set.
        return lambda name: name if name in values else None
    kind = field.message_type
    if kind is None or kind.GetOptions().map_entry:
        return None
    if kind.full_name in _SECONDS:
        return _SECONDS[kind.full_name]
    if field.is_repeated:
        return lambda items: [_known(kind, item) for item in items]
    return lambda given: _known(kind, given)


def _timestamp(moment_s: float) -> Fields:
    """The fields of a Timestamp, to the microsecond."""
    seconds, nanos = divmod(round(moment_s * 1_000_000) * 1000, NANOS)
    return {"seconds": seconds, "nanos": nanos}


def _duration(length_s: float) -> Fields:
    """The fields of a Duration, which is not negative."""
    seconds, nanos = divmod(round(length_s * NANOS), NANOS)
    return {"seconds": seconds, "nanos": nanos}


_SECONDS: Mapping[str, _Convert] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
}
"""The types of messages that are given as a number of seconds."""

tpu_v2 = load_types("google.cloud.tpu_v2", "cloud_tpu")
"""google.cloud.tpu.v2: Node, QueuedResource, every request and every response."""

tpu_v2alpha1 = load_types("google.cloud.tpu_v2alpha1", "cloud_tpu")
"""The same names with other field numbers; 7 ms and half a MiB, not worth a later import."""

GRPC_MESSAGES = {
    version: Messages(f"google.cloud.tpu.{version}", descriptor_pool.Default())
    for version in ("v2", "v2alpha1")
}
"""What is spoken over gRPC, by version; REST knows more (rest_messages.py)."""
