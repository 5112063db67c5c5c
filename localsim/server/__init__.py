"""The composition root: opens the ports, wires the cloud to its workers, prints one line."""

from localsim.server.serving import serve
from localsim.server.settings import Settings
from localsim.state_directory import ServeError

__all__ = ["ServeError", "Settings", "serve"]
