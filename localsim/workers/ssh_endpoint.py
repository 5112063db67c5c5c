"""The SSH server of a worker, as those use it who start it, fail it and lead clients to it."""

import socket
from enum import Enum
from typing import Protocol


class SshBehaviour(Enum):
    """How an SSH server treats clients."""

    SERVES = "serves"
    REFUSES = "refuses"
    """New connections are taken and closed at once; those that are open go on."""
    HANGS = "hangs"
    """Connections are taken, and nothing is said on any, until it serves again."""
    UNREACHABLE = "unreachable"
    """As hanging, but its server goes on: after a while it gives the clients up."""


class SshEndpoint(Protocol):
    """An SSH server of one worker."""

    @property
    def behaviour(self) -> SshBehaviour:
        """How it treats clients now."""

    async def adopt(self, connection: socket.socket) -> None:
        """Serve a client that has connected elsewhere, as if it had connected here."""

    def behave(self, manner: SshBehaviour) -> None:
        """Treat clients, connected ones included, in this way from now on."""

    async def close(self) -> None:
        """Cut every connection before anything else, and stop."""
