"""Where the compilation cache of a run is on its worker. Python 3.8."""

from __future__ import annotations

import os
from hashlib import sha256

VARIABLES = ("TPUCTL_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")
"""Tell a program its directory; the second one is all that JAX needs:
https://docs.jax.dev/en/latest/persistent_compilation_cache.html"""


def cache_directory(url: str) -> str:
    """Return where the objects below a gs:// URL are on this worker."""
    name = sha256(url.encode()).hexdigest()[:16]
    return os.path.join(os.path.expanduser("~"), ".cache", "tpuctl", name)
