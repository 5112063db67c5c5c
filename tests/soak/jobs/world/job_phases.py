"""Holding jobs in one phase of their life, and letting go of them: see job_clients.py."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from soak.jobs.world.job_clients import CONTEXTS, TYPE, Bench
from tpuctl.errors import NotFoundError
from tpuctl.jobs.local import supervisor_lock
from tpuctl.models.job import JobRecord

ZONES = ("us-west4-a", "us-west4-b")
PHASES = ("QUEUED", "WAITING", "PREPARING", "RUNNING", "RECOVERING", "teardown")
NOTHING = [f"capacity {zone} {TYPE}: 0" for zone in ZONES]
NEVER = "DeleteQueuedResource: UNAVAILABLE x100000"
REACHED: dict[str, Callable[[JobRecord], bool]] = {
    "QUEUED": lambda job: job.state == "QUEUED",
    "WAITING": lambda job: job.state == "WAITING" and "WAITING_FOR_RESOURCES" in job.why,
    "PREPARING": lambda job: job.state == "PREPARING",
    "RUNNING": lambda job: job.state == "RUNNING",
    "RECOVERING": lambda job: job.state == "RECOVERING" and len(job.attempts) > 1,
    "teardown": lambda job: job.is_ended and not job.is_settled,
}


@dataclass
class Held:
    """Jobs that do not get beyond a phase."""

    bench: Bench
    phase: str
    gate: Path
    seats: ExitStack = field(default_factory=ExitStack)

    def reach(self, *names: str) -> list[JobRecord]:
        """Bring jobs that are under way into the phase."""
        if self.phase == "RECOVERING":
            self._preempt(*names)
        if self.phase == "teardown":
            self.bench.until(*names, is_so=REACHED["RUNNING"])
            self.bench.cloud.control.add_fault(NEVER)
            (self.gate / "go").touch()
        return self.bench.until(*names, is_so=REACHED[self.phase])

    def _preempt(self, *names: str) -> None:
        jobs = self.bench.until(*names, is_so=REACHED["RUNNING"])
        for fault in NOTHING:
            self.bench.cloud.control.add_fault(fault)
        for job in jobs:
            assert job.attempt is not None
            self.bench.cloud.control.preempt(job.attempt.node, job.attempt.zone, 0.0)

    def release(self) -> None:
        """They may go on to their end."""
        self.seats.close()
        self.bench.cloud.control.clear_faults()
        for name in ("prepared", "go"):
            (self.gate / name).touch()


@contextmanager
def held(bench: Bench, phase: str, gate: Path) -> Iterator[Held]:
    """Hold what is submitted from now on in that phase."""
    gate.mkdir()
    found = Held(bench, phase, gate)
    if phase == "QUEUED":
        for name in CONTEXTS:
            found.seats.enter_context(supervisor_lock.hold(bench.home, name))
    if phase == "WAITING":
        for fault in NOTHING:
            bench.cloud.control.add_fault(fault)
    if phase in ("RUNNING", "RECOVERING", "teardown"):
        (gate / "prepared").touch()
    try:
        yield found
    finally:
        with suppress(NotFoundError):
            found.release()
