"""Google's own message classes, without the clients that their package would import with them.

The package's `__init__` loads both clients, google.auth and requests: four fifths of its import
time. The classes are registered under their canonical names, so that whoever imports the package
later in the same process shares them.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(package: str, module: str) -> ModuleType:
    """`<package>.types.<module>` alone; by the plain import when its file is not where it was."""
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


tpu_v2 = load("google.cloud.tpu_v2", "cloud_tpu")
"""google.cloud.tpu.v2: Node, QueuedResource, every request and every response."""
