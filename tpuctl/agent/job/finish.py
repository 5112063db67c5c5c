"""Ends a run: kills what it left on the worker, and uploads its log and final status.

Python 3.8.
"""

from __future__ import annotations

import json
import time

from tpuctl.agent.job.child import BLOCK_BYTES
from tpuctl.agent.job.logs import uploader
from tpuctl.agent.job.state import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tpuctl.agent.job.agent_run import AgentRun

LEFTOVERS_S = 2.0
"""For what the program left behind, between SIGTERM and SIGKILL."""
RETRY_UPLOAD_S = 24 * 3600.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


def finish_run(run: AgentRun) -> None:
    """End leftover processes, and upload log, stacks and final status, in this order.

    Goes on for up to a day while the bucket cannot be reached.
    """
    processes.end_marked([run.directory], LEFTOVERS_S)
    run.uploader.finish()
    is_there = upload_final(run, uploader.PATIENCE_S if is_log_safe(run) else 0.0)
    run.report(closed=True)
    run.file.free()
    if not is_there:
        retry_upload(run)


def is_log_safe(run: AgentRun) -> bool:
    """Whether the bucket has the whole log."""
    return run.files.safe_bytes == run.files.size_bytes


def upload_final(run: AgentRun, patience_s: float) -> bool:
    """Upload stacks and final status; return whether the bucket has them and the log."""
    is_there = is_log_safe(run)
    if run.stacks:
        stacks = run.config["stacks"]
        is_there &= uploader.store_object(run.objects(), stacks, run.stacks, patience_s)
    text = json.dumps({**run.document(), "closed": True}).encode()
    final = run.config["final"]
    return uploader.store_object(run.objects(), final, text, patience_s) and is_there


def retry_upload(run: AgentRun) -> None:
    """Try to upload for a day: without a supervisor nothing else is known of the run."""
    until, pause_s = time.monotonic() + RETRY_UPLOAD_S, FIRST_PAUSE_S
    is_there = False
    while not is_there and time.monotonic() < until and not run.commands.is_terminated:
        run.selector.wait(pause_s, BLOCK_BYTES)
        pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
        is_there = run.uploader.segment(is_apart=True) and upload_final(run, 0.0)
    run.report()
