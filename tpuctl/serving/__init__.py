"""A model behind HTTP or over files: two functions of the user's, `load` and `predict`.

    python3 -m tpuctl.serving model.py --port 8000

Imported by programs on workers, so: Python 3.10; numpy; of tpuctl only the checkpoints, the store
and the errors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuctl.serving.program import ModelCheckpoint
    from tpuctl.serving.server.serve import serve
    from tpuctl.serving.server.server_options import ServerOptions

__all__ = ["ModelCheckpoint", "ServerOptions", "serve"]

_PLACES = {
    "ModelCheckpoint": "program",
    "ServerOptions": "server.server_options",
    "serve": "server.serve",
}


def __getattr__(name: str) -> object:
    """Imported when it is asked for: on a worker every import compiles what lies in a zip."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
