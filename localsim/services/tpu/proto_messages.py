"""Google's message classes, loaded without the clients in their package.

The package's `__init__` loads both clients, google.auth and requests: four fifths of its import
time. The classes are registered under their canonical names, so that whoever imports the package
later in the same process shares them.
"""

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

Fields = Mapping[str, Any]
"""Plain values under the names of a proto file; None is a field that is not set."""


def load_types(package: str, module: str) -> ModuleType:
    """Load `<package>.types.<module>` alone, or by the plain import where its file has moved."""
    canonical = f"{package}.types.{module}"
    if canonical in sys.modules:
        return sys.modules[canonical]
    found = importlib.util.find_spec(package)
    folders = (found.submodule_search_locations or ()) if found else ()
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
    """The message classes of one version of the API, by name: `messages["QueuedResource.Tpu"]`."""

    def __init__(self, version: str, pool: DescriptorPool) -> None:
        """The classes that a pool of descriptors has under the version's package."""
        self.version = version
        self.package = f"google.cloud.tpu.{version}"
        self.pool = pool
        self._classes: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        found = self._classes.get(name)
        if found is None:
            descriptor = self.pool.FindMessageTypeByName(f"{self.package}.{name}")
            found = self._classes[name] = message_factory.GetMessageClass(descriptor)
        return found


def build_message(kind: Any, fields: Fields) -> Any:
    """A message with those of the fields, at any depth, that its class has."""
    return kind(**_known(kind.DESCRIPTOR, fields))


@cache
def _shape(descriptor: Descriptor) -> Mapping[str, Descriptor | EnumDescriptor | None]:
    """The fields of a message; with the message, unless it is a map's entry, or enum they hold."""
    return {
        field.name: field.enum_type
        if field.message_type is None or field.message_type.GetOptions().map_entry
        else field.message_type
        for field in descriptor.fields
    }


def _known(descriptor: Descriptor, fields: Fields) -> Fields:
    shape = _shape(descriptor)
    known: dict[str, Any] = {}
    for name, value in fields.items():
        if value is None or name not in shape:
            continue
        inner = shape[name]
        if isinstance(inner, EnumDescriptor) and isinstance(value, str):
            if value in inner.values_by_name:  # a generation may be newer than these messages
                known[name] = value
        elif inner is None or isinstance(inner, EnumDescriptor):
            known[name] = value
        elif isinstance(value, Mapping):
            known[name] = _known(inner, value)
        else:
            known[name] = _known_all(inner, value)
    return known


def _known_all(descriptor: Descriptor, items: Iterable[Fields]) -> list[Fields]:
    return [_known(descriptor, each) for each in items]


tpu_v2 = load_types("google.cloud.tpu_v2", "cloud_tpu")
"""google.cloud.tpu.v2: Node, QueuedResource, every request and every response."""

tpu_v2alpha1 = load_types("google.cloud.tpu_v2alpha1", "cloud_tpu")
"""The same names with other field numbers; 7 ms and half a MiB, not worth a later import."""

GRPC_MESSAGES = {
    version: Messages(version, descriptor_pool.Default()) for version in ("v2", "v2alpha1")
}
"""What is spoken over gRPC, by version; REST knows more (rest_messages.py)."""
