"""What a proxy knows of one replica's health, from probes and from answers; pure."""

from dataclasses import dataclass
from enum import StrEnum

from tpuctl.proxy.proxy_limits import ProxyLimits


class ProbeResult(StrEnum):
    """How a request for the ready path of a replica ended."""

    READY = "ready"
    NOT_READY = "not ready"
    """Its status was not one of 200 to 299."""
    UNREACHABLE = "unreachable"
    """The connection was refused or broke."""
    TIMEOUT = "timeout"


class AnswerResult(StrEnum):
    """How a request that a replica was given ended."""

    GOOD = "good"
    SERVER_ERROR = "server error"
    """The engine itself answered with a status of 500 or more."""
    UNREACHABLE = "unreachable"
    """No connection was made."""
    FAILED = "failed"
    """It broke off, answered garbage, or was silent for too long."""


@dataclass(slots=True)
class ReplicaHealth:
    """Whether a replica is ready, and until when it is removed."""

    limits: ProxyLimits
    is_ready: bool = False
    why: str = "not probed yet"
    """Why it is not ready."""
    removed_until_s: float = 0.0
    removals: int = 0
    """How many removals followed each other."""
    removals_total: int = 0
    _good_probes: int = 0
    _probe_timeouts: int = 0
    _wanted_probes: int = 1
    _failures: int = 0
    _server_errors: int = 0

    def probe(self, result: ProbeResult, detail: str) -> None:
        """Take what a probe found into account; `detail` says it to people."""
        if result is ProbeResult.READY:
            self._probe_timeouts = 0
            self._good_probes += 1
            if self._good_probes >= self._wanted_probes:
                self.is_ready = True
            return
        self._good_probes = 0
        self._probe_timeouts += result is ProbeResult.TIMEOUT
        is_slow = result is ProbeResult.TIMEOUT and self.is_ready
        if not is_slow or self._probe_timeouts >= self.limits.probe_timeouts:
            self.take_out(detail)

    def take_out(self, why: str) -> None:
        """Give the replica no more requests until probes say that it is back."""
        self.is_ready, self.why = False, why
        self._good_probes = 0
        self._wanted_probes = self.limits.probes_back

    def answer(self, result: AnswerResult, now_s: float, why: str = "") -> bool:
        """Take the end of a request into account; returns whether the replica is removed by it."""
        if result is AnswerResult.GOOD:
            self._failures = self._server_errors = 0
            return False
        if result is AnswerResult.UNREACHABLE:
            self.take_out(why)
            return False
        if result is AnswerResult.SERVER_ERROR:
            self._server_errors += 1
        else:
            self._failures += 1
        limits = self.limits
        if self._failures < limits.failures and self._server_errors < limits.server_errors:
            return False
        self._remove(now_s)
        return True

    def _remove(self, now_s: float) -> None:
        limits = self.limits
        if now_s - self.removed_until_s > limits.longest_removal_s:
            self.removals = 0
        duration_s = min(limits.longest_removal_s, limits.removal_s * 2.0**self.removals)
        self.removed_until_s = now_s + duration_s
        self.removals = min(self.removals + 1, 30)
        self.removals_total += 1
        self._failures = self._server_errors = 0
