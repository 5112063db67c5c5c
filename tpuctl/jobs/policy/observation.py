"""The world as one job sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuctl.models.capacity.capacity_event import RefusalCause
from tpuctl.models.job import WorkerReport

ABSENT = "ABSENT"
"""The state of what the API was asked for and does not have."""
WITHDRAWN = "WITHDRAWN"
"""The state of a suspended queued resource whose node a user took, not the service."""


@dataclass(frozen=True, slots=True)
class SliceRefusal:
    """Why the Cloud TPU API does not grant a slice: its text, and the kind of the error."""

    text: str
    kind: str
    queued_resource: str = ""
    """The request that it is about; empty: the one that leads the newest attempt."""
    is_shortage: bool = False
    """No chips or no quota now: another zone may have them, or this one later."""
    cause: RefusalCause | None = None
    """What it says about the capacity of the zone; None: nothing, or not known."""


@dataclass(frozen=True, slots=True)
class ZoneHealth:
    """Stock-outs of one type in one zone, and the quota that is left there."""

    out_s: float | None = None
    """When it was last seen out of them, by whatever job of the bucket."""
    since_s: float | None = None
    """Since when, as far as anybody knows."""
    tries: int = 0
    """How often it was found out of them since then."""
    stockout_score: float = 0.0
    """The tries, of which half count after half an hour."""
    has_quota: bool | None = None
    """For what the job wants; None: it could not be asked."""
    quota: str = ""
    """`0 of 16 chips left`."""
    has_addresses: bool | None = None
    """Whether the region has external addresses for what the job wants; None: not known."""
    addresses: str = ""
    """`0 of 8 external addresses left`."""
    over_limit: str = ""
    """Which limit of the context the job's slices would exceed there; empty: none is known."""
    usd_left: float | None = None
    """How many USD/h may be added in the context; None: any number, or not known."""


@dataclass(frozen=True, slots=True)
class JobObservation:
    """What one step of a job knows of its slices and workers; unknown is missing or None."""

    now_s: float
    requests: Mapping[str, str] = field(default_factory=dict)
    """State of each queued resource of the job's, ABSENT included, by name."""
    looked_s: float = 0.0
    """When the API began to be asked."""
    node: str | None = None
    """State of the newest attempt's nodes, the worst of them, ABSENT included."""
    node_checked_s: float = 0.0
    node_ids: tuple[int, ...] = ()
    worker_count: int = 0
    """The number of workers of all nodes together."""
    created_s: float | None = None
    """When the API created the first of the newest attempt's nodes."""
    failed_workers: frozenset[int] = frozenset()
    """Those that the service says do not answer, by the health and symptoms of their nodes."""
    queued_resource: str | None = None
    """The request that the newest attempt's node came from."""
    workers: tuple[WorkerReport, ...] = ()
    excused_s: float | None = None
    """When nobody answered for the last time although the slice still sent its log to the bucket:
    our way to it was cut."""
    final_reports: tuple[WorkerReport, ...] = ()
    """What workers left in the bucket as they ended, once they can no longer be asked."""
    saved_s: float | None = None
    """When the newest checkpoint was written, 0.0 where there is none; None: not known."""
    zone_health: Mapping[tuple[str, str], ZoneHealth] | None = None
    """By zone and type; None: nobody has looked yet, and no slice is requested before that."""
    blocked_by: str = ""
    """What this supervisor must have before it can start the job, and has not."""
    refusals: tuple[SliceRefusal, ...] = ()
    """Of requests of the newest attempt."""
    trouble: str | None = None
    """What went wrong when the world was last asked or acted upon."""
