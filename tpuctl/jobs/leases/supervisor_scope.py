"""Which jobs a supervisor looks after, and for how long it stays."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tpuctl.jobs.leases.heartbeat import DEFAULT_TERMS, LeaseTerms
from tpuctl.jobs.leases.lease import Lease

IDLE_EXIT_S = 3.0
SHORTEST_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class SupervisorScope:
    """Which jobs a supervisor takes and when it ends, as given at its start."""

    accepts: tuple[str, ...]
    """Owners whose jobs it takes; `*` stands for any text."""
    idle_exit_s: float | None = IDLE_EXIT_S
    """Idle seconds after which the supervisor ends; None: it stays."""
    only: str | None = None
    """The one job that it is for."""
    terms: LeaseTerms = DEFAULT_TERMS

    def has(self, lease: Lease) -> bool:
        """Whether the supervisor takes the job of this lease."""
        if self.only is not None:
            return lease.job_id == self.only
        return any(fnmatchcase(lease.owner, owner) for owner in self.accepts)

    def may_exit(self, idle_s: float) -> bool:
        """Whether the supervisor ends after so many idle seconds."""
        return self.idle_exit_s is not None and idle_s >= self.idle_exit_s

    def bounded_pause(self, pause_s: float) -> float:
        """The pause in seconds, shortened so that it does not outlast the idle time."""
        if self.idle_exit_s is None:
            return pause_s
        return min(pause_s, max(SHORTEST_PAUSE_S, self.idle_exit_s / 2))
