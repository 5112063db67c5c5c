"""How a model is served."""

from __future__ import annotations

from dataclasses import dataclass

from tpuctl.errors import UsageError
from tpuctl.serving.http1.connection import HttpLimits

MIB = 1024 * 1024


@dataclass(frozen=True)
class ServerOptions:
    """The options of `python3 -m tpuctl.serving` and of `serve`."""

    port: int = 8000
    host: str | None = None
    """None: every address of the worker."""
    name: str | None = None
    """Of the model, as clients say it; None: that of the module."""
    max_batch: int = 64
    """The largest batch that the model gets, and the most rows of a request."""
    latency_target_ms: float | None = None
    """Batches grow while a request that waits for one, and is in the next, takes no longer."""
    queue_rows: int | None = None
    """Rows that may wait; None: 16 times the largest batch. More are answered 429."""
    deadline_s: float = 30.0
    """For a request to be answered; the client's own timeout may be shorter."""
    max_body_mib: float = 64.0
    allows_non_finite: bool = False
    """Whether NaN and infinity in an input reach the model."""
    grace_s: float = 2.5
    """After SIGTERM, for those who route requests to take note that the server is not ready."""
    drain_s: float = 30.0
    """After SIGTERM, for everything: what is then not answered is given up."""

    def __post_init__(self) -> None:
        """Raise UsageError for values that make no server."""
        if not 0 <= self.port <= 65535:
            raise UsageError(f"port {self.port} is not a port", hint="give 1 to 65535")
        positive = {
            "max-batch": self.max_batch,
            "deadline-s": self.deadline_s,
            "max-body-mib": self.max_body_mib,
            "latency-target-ms": 1 if self.latency_target_ms is None else self.latency_target_ms,
        }
        for name, value in positive.items():
            if not value > 0:
                raise UsageError(f"--{name} must be greater than 0, not {value}")
        if not 0 <= self.grace_s <= self.drain_s:
            raise UsageError(
                f"--grace-s {self.grace_s} is not within --drain-s {self.drain_s}",
                hint="give a grace of 0 up to the time of the drain",
            )
        if self.most_queued_rows < self.max_batch:
            raise UsageError(f"--queue-rows {self.queue_rows} is less than --max-batch")

    @property
    def most_queued_rows(self) -> int:
        """How many rows may wait."""
        return 16 * self.max_batch if self.queue_rows is None else self.queue_rows

    @property
    def http_limits(self) -> HttpLimits:
        """What a client may ask of a connection."""
        body_bytes = int(self.max_body_mib * MIB)
        return HttpLimits(
            max_body_bytes=body_bytes,
            max_total_bytes=max(HttpLimits().max_total_bytes, 4 * body_bytes),
        )

    @property
    def target_s(self) -> float | None:
        """The target of latency in seconds."""
        return None if self.latency_target_ms is None else self.latency_target_ms / 1000
