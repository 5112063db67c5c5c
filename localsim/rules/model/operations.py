"""Long-running operations."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from localsim.rules.model.cloud_errors import Failure
from localsim.rules.model.nodes import Node
from localsim.rules.model.queued_resources import QueuedResource


class Verb(StrEnum):
    """The values of OperationMetadata.verb."""

    CREATE = "create"
    DELETE = "delete"
    UPDATE = "update"
    STOP = "stop"
    START = "start"
    RESET = "reset"
    PERFORM_MAINTENANCE = "performMaintenance"
    SIMULATE_MAINTENANCE = "simulateMaintenanceEvent"


@dataclass(frozen=True, slots=True)
class Operation:
    """One change of one resource; it has ended when it has an end time."""

    name: str
    target: str
    verb: Verb
    create_time_s: float
    end_time_s: float | None = None
    failure: Failure | None = None
    node: Node | None = None
    queued_resource: QueuedResource | None = None
    """The target as it was at the end; neither after a deletion or a failure."""
    cancel_requested: bool = False
    request_id: str = ""
    status_detail: str = ""
    request_digest: str = ""
    """Tells the request with `request_id` from another one that carries the same id."""
    api_version: str = "v2"
    """The version of the API it was begun with: how to show it to who does not say a version."""

    @property
    def is_done(self) -> bool:
        """Whether it has ended, with success or an error."""
        return self.end_time_s is not None


def operation_name(parent: str, now_s: float, random: Random) -> str:
    """A name in Google's form, `operation-<epoch ms>-<hex>-<hex>-<hex>`."""
    hexes = "-".join(f"{random.getrandbits(bits):0{bits // 4}x}" for bits in (52, 32, 32))
    return f"{parent}/operations/operation-{int(now_s * 1000)}-{hexes}"
