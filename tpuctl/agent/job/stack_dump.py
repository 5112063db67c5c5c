"""Stacks of a run's processes, taken before a run that makes no progress is killed. Python 3.8."""

from __future__ import annotations

import contextlib
import signal

from tpuctl.agent.job.logs.redaction import Redaction
from tpuctl.agent.job.state import processes
from tpuctl.agent.tools import thread_view

SIGABRT_HEADING = "\n==== printed after SIGABRT\n"


def kernel_view(group: int, redaction: Redaction) -> str:
    """Return a text of every process of a group and where its threads wait in the kernel."""
    redact = redaction.redact_json
    rows = [thread_view.process_stacks(pid, redact) for pid in processes.members(group)]
    return "".join(rows) or "no /proc here\n"


def abort(group: int) -> None:
    """Send SIGABRT, on which Python prints the stack of every thread; no core is written."""
    with contextlib.suppress(ImportError, AttributeError):
        import resource

        for pid in processes.members(group):
            with contextlib.suppress(OSError):
                _, most = resource.prlimit(pid, resource.RLIMIT_CORE)
                resource.prlimit(pid, resource.RLIMIT_CORE, (0, most))
    processes.signal_group(group, signal.SIGABRT)
