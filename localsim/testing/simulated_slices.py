"""Slices of a simulated cloud, created and asked about through its Cloud TPU API."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from localsim.testing.local_http import JsonConnection
from localsim.testing.simulator_options import SimulatedCloudError
from localsim.testing.tpuctl_command import TpuctlResult

POLL_S = 0.02
STEP_S = 1.0
"""By how much a clock that stands still is advanced between two looks."""
LIMIT_S = 600.0
"""Simulated seconds until a slice must be READY, or gone."""


class SliceCloud(Protocol):
    """What a slice asks of the cloud that it is in."""

    def preempt(self, node: str, *, zone: str | None, notice_s: float | None) -> float:
        """Take a slice away; returns the notice in seconds."""

    def tpuctl(self, *argv: str) -> TpuctlResult:
        """Run a command."""


@dataclass(frozen=True, slots=True)
class SimulatedSlice:
    """A slice that was READY when it was created."""

    name: str
    zone: str
    accelerator_type: str
    cloud: SliceCloud = field(repr=False)
    _api: "SliceApi" = field(repr=False)

    def describe(self) -> dict[str, Any]:
        """The node as the Cloud TPU API shows it now."""
        return self._api.get(self.zone, self.name)

    @property
    def state(self) -> str:
        """Its state now, in the words of the API: `READY`, `PREEMPTED`, …"""
        return str(self.describe()["state"])

    @property
    def worker_count(self) -> int:
        """How many workers it has."""
        return len(self.describe()["networkEndpoints"])

    def preempt(self, *, notice_s: float | None = None) -> float:
        """Take it away after `notice_s` seconds; None draws the notice from the scenario."""
        return self.cloud.preempt(self.name, zone=self.zone, notice_s=notice_s)

    def run(self, *argv: str, worker: int | str = "all") -> TpuctlResult:
        """Run a command on its workers, as `tpuctl node exec` does."""
        options = ("--zone", self.zone, "--worker", str(worker))
        return self.cloud.tpuctl("node", "exec", self.name, *options, "--", *argv)

    def delete(self) -> None:
        """Delete it, and return when it is gone."""
        self._api.delete(self.zone, self.name)


@dataclass(frozen=True, slots=True)
class SliceApi:
    """The REST methods of Cloud TPU that tests need, in one project."""

    connection: JsonConnection = field(repr=False)
    project: str
    pass_time: Callable[[], float]
    """Lets a little simulated time pass and returns the time."""

    def create(self, zone: str, name: str, node: Mapping[str, Any]) -> None:
        """Create a node and wait until it is READY. Raises SimulatedCloudError."""
        path = f"{self._zone(zone)}/nodes?nodeId={name}"
        self._finish(self.connection.send("POST", path, node))

    def get(self, zone: str, name: str) -> dict[str, Any]:
        """A node. Raises SimulatedCloudError for one that does not exist."""
        return self.connection.send("GET", f"{self._zone(zone)}/nodes/{name}")

    def delete(self, zone: str, name: str) -> None:
        """Delete a node and wait until it is gone. Raises SimulatedCloudError."""
        self._finish(self.connection.send("DELETE", f"{self._zone(zone)}/nodes/{name}"))

    def _zone(self, zone: str) -> str:
        return f"/v2/projects/{self.project}/locations/{zone}"

    def _finish(self, operation: Mapping[str, Any]) -> None:
        """Wait for the end of an operation. Raises SimulatedCloudError with its error."""
        deadline_s = self.pass_time() + LIMIT_S
        while not operation.get("done"):
            if self.pass_time() > deadline_s:
                raise SimulatedCloudError(f"{operation['name']} has not ended")
            operation = self.connection.send("GET", f"/v2/{operation['name']}")
        if "error" in operation:
            raise SimulatedCloudError(str(operation["error"]["message"]))


def real_pause(now: Callable[[], float]) -> Callable[[], float]:
    """For a clock that runs: wait a little."""

    def pause() -> float:
        time.sleep(POLL_S)
        return now()

    return pause
