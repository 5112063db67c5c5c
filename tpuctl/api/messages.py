"""Google's own message classes, without the clients that their package imports.

`import google.cloud.tpu_v2` builds both clients and loads google.auth and requests: about 200 ms
before the first request. The messages alone take a quarter of that. They are registered under their
canonical names, so that a program that imports the package later shares the very same classes.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def _types_module(name: str) -> ModuleType:
    canonical = f"google.cloud.tpu_v2.types.{name}"
    if canonical in sys.modules:
        return sys.modules[canonical]
    package = importlib.util.find_spec("google.cloud.tpu_v2")
    roots = (package.submodule_search_locations or []) if package else []
    file = next((p for root in roots if (p := Path(root, "types", f"{name}.py")).is_file()), None)
    spec = importlib.util.spec_from_file_location(canonical, file) if file else None
    if spec is None or spec.loader is None:
        return importlib.import_module(canonical)
    module = importlib.util.module_from_spec(spec)
    sys.modules[canonical] = module
    spec.loader.exec_module(module)
    return module


tpu = _types_module("cloud_tpu")
"""google.cloud.tpu_v2.types.cloud_tpu: Node, QueuedResource and every request and response."""
