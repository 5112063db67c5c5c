"""Google's message classes, loaded without the clients in their package.

The package's `__init__` loads both clients, google.auth and requests: four fifths of its import
time. The classes are registered under their canonical names, so that whoever imports the package
later in the same process shares them.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pool import DescriptorPool


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

    def __init__(self, package: str, pool: DescriptorPool, operation_metadata: str = "") -> None:
        """The classes that a pool of descriptors has under the package, `google.cloud.tpu.v2`.

        `operation_metadata` is the full name of that message where it is not the package's own.
        """
        self.version = package.rpartition(".")[2]
        self.package = package
        self.pool = pool
        self._operation_metadata = operation_metadata or f"{package}.OperationMetadata"
        self._classes: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        kind = self._classes.get(name)
        if kind is None:
            descriptor = self.pool.FindMessageTypeByName(f"{self.package}.{name}")
            kind = self._classes[name] = message_factory.GetMessageClass(descriptor)
        return kind

    @property
    def operation_metadata(self) -> Any:
        """The class of what operations say of themselves."""
        found = self.pool.FindMessageTypeByName(self._operation_metadata)
        return message_factory.GetMessageClass(found)

    def get(self, name: str) -> Any:
        """The class of that name, or None."""
        try:
            return self[name]
        except KeyError:
            return None


tpu_v2 = load_types("google.cloud.tpu_v2", "cloud_tpu")
"""google.cloud.tpu.v2: Node, QueuedResource, every request and every response."""

tpu_v2alpha1 = load_types("google.cloud.tpu_v2alpha1", "cloud_tpu")
"""The same names with other field numbers; 7 ms and half a MiB, not worth a later import."""

GRPC_MESSAGES = {
    version: Messages(f"google.cloud.tpu.{version}", descriptor_pool.Default())
    for version in ("v2", "v2alpha1")
}
"""What is spoken over gRPC, by version; REST knows more (rest_messages.py)."""
