"""The seam between the wire and the simulated cloud."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from localsim.cloud.cloud import Cloud

Answer = TypeVar("Answer")


class World(Protocol):
    """Whoever holds the cloud and its workers together."""

    async def run(self, action: Callable[[Cloud], Answer]) -> Answer:
        """Let time pass, act on the cloud, and let what follows happen."""
        ...
