"""The check of this machine's clock against the one of Cloud Storage."""

import sys
from collections.abc import Iterator

from tpuctl.config import ANONYMOUS
from tpuctl.models.duration import age
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope

CLOCK = "clock"
TIMEOUT_S = 7.0
SHOWN_S, REFUSED_S = 10.0, 300.0
"""From how much on leases and ages look wrong, and Google refuses what a key file signs."""
COMMANDS = {"linux": "sudo timedatectl set-ntp true", "darwin": "sudo sntp -sS time.apple.com"}


def ask_clock(scope: DoctorScope) -> Iterator[HealthCheck]:
    """How far this machine's clock is from the Date of an answer of Cloud Storage."""
    from tpuctl.api.server_clock import server_time_s

    context = scope.known_context
    if context is None:
        return
    before_s = scope.now()
    server_s = server_time_s(
        context.storage_endpoint,
        timeout_s=TIMEOUT_S,
        uses_proxies=context.credentials != ANONYMOUS,
    )
    yield clock_line(before_s, server_s, scope.now())


def clock_line(before_s: float, server_s: float, after_s: float) -> HealthCheck:
    """The line for a server's time, in whole seconds, that was told between two of ours."""
    off_s = max(before_s - (server_s + 1), server_s - after_s, 0.0)
    if off_s < SHOWN_S:
        return HealthCheck(CLOCK, HealthState.PASS, "it agrees with that of Cloud Storage")
    side = "ahead of" if before_s > server_s else "behind"
    evidence = f"it is {age(off_s)} {side} that of Cloud Storage"
    state = HealthState.FAIL if off_s >= REFUSED_S else HealthState.WARN
    return HealthCheck(CLOCK, state, evidence, COMMANDS.get(sys.platform))


CHECKS = (DoctorCheck(CLOCK, ask_clock),)
