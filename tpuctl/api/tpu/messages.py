"""Google's own message classes, without the clients that their package imports.

`import google.cloud.tpu_v2` builds both clients and loads google.auth and requests: about 200 ms
before the first request. The messages alone take a quarter of that. They are registered under their
canonical names, so that a program that imports the package later shares the very same classes.
"""

import importlib
import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

LOADING = threading.RLock()
"""Held while classes are loaded: a module is registered before it is complete."""


def types_of(version: str) -> ModuleType:
    """google.cloud.tpu_VERSION.types.cloud_tpu: Node, QueuedResource, every request and response.

    `version` is `v2` or `v2alpha1`; the classes differ on the wire, so each has its own. A thread
    waits until another one has loaded them.
    """
    with LOADING:
        return _load_types(version)


def _load_types(version: str) -> ModuleType:
    canonical = f"google.cloud.tpu_{version}.types.cloud_tpu"
    if canonical in sys.modules:
        return sys.modules[canonical]
    package = importlib.util.find_spec(f"google.cloud.tpu_{version}")
    roots = (package.submodule_search_locations or []) if package else []
    file = next((p for root in roots if (p := Path(root, "types", "cloud_tpu.py")).is_file()), None)
    spec = importlib.util.spec_from_file_location(canonical, file) if file else None
    if spec is None or spec.loader is None:
        return importlib.import_module(canonical)
    module = importlib.util.module_from_spec(spec)
    sys.modules[canonical] = module
    spec.loader.exec_module(module)
    return module


tpu = types_of("v2")
"""The messages of v2, which nearly every call speaks."""
