"""The seam between the wire and the simulated cloud."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from localsim.cloud.cloud import Cloud
from localsim.cloud.scenario.fault_types import FaultEffect

Answer = TypeVar("Answer")


class CloudPort(Protocol):
    """Whoever holds the cloud and its workers together."""

    async def run(self, action: Callable[[Cloud], Answer]) -> Answer:
        """Let time pass, act on the cloud, and let what follows happen."""
        ...

    def project_changed(self) -> None:
        """Let workers see the project's metadata as it is now."""
        ...

    async def meet_fault(self, method: str) -> FaultEffect | None:
        """What goes wrong with a call of the method on purpose; its latency has passed already."""
        ...
