"""The composition root: opens the ports, wires the cloud to its workers, prints one line."""

from localsim.ports import RefusedToServe
from localsim.server.serving import serve
from localsim.server.settings import Settings

__all__ = ["RefusedToServe", "Settings", "serve"]
