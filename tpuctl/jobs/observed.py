"""The world as one job sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuctl.models.job import WorkerReport

ABSENT = "ABSENT"
"""The state of what the API was asked for and does not have."""
WITHDRAWN = "WITHDRAWN"
"""The state of a suspended queued resource whose node a user took, not the service."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the Cloud TPU API will never grant a slice: its words, and the kind of the error."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of the world now; what could not be asked is missing or None."""

    now_s: float
    requests: Mapping[str, str] = field(default_factory=dict)
    """State of each queued resource of the job's, ABSENT included, by name."""
    node: str | None = None
    """State of the newest attempt's node, ABSENT included."""
    node_checked_s: float = 0.0
    worker_count: int = 0
    queued_resource: str | None = None
    """The request that the newest attempt's node came from."""
    workers: tuple[WorkerReport, ...] = ()
    refusal: Refusal | None = None
    trouble: str | None = None
    """What went wrong when the world was last asked or acted upon."""
