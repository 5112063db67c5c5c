"""The end of a run: nothing of it is left on the worker, everything it says is in the bucket.

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
    """End what is left, and put everything into the bucket, the final status last."""
    processes.end_marked([run.directory], LEFTOVERS_S)
    run.uploader.finish()
    is_there = upload_final(run, uploader.PATIENCE_S if is_log_safe(run) else 0.0)
    run.report(closed=True)
    run.file.free()
    if not is_there:
        retry_upload(run)


def is_log_safe(run: AgentRun) -> bool:
    """The bucket has every line."""
    return run.files.safe_bytes == run.files.size_bytes


def upload_final(run: AgentRun, patience_s: float) -> bool:
    """Store what is for those who come later; True when the bucket has it, and the log."""
    is_there = is_log_safe(run)
    if run.stacks:
        stacks = run.config["stacks"]
        is_there &= uploader.store_object(run.objects(), stacks, run.stacks, patience_s)
    text = json.dumps({**run.document(), "closed": True}).encode()
    final = run.config["final"]
    return uploader.store_object(run.objects(), final, text, patience_s) and is_there


def retry_upload(run: AgentRun) -> None:
    """Go on trying while the bucket is away: with nobody else about, this is what is known."""
    until, pause_s = time.monotonic() + RETRY_UPLOAD_S, FIRST_PAUSE_S
    is_there = False
    while not is_there and time.monotonic() < until and not run.orders.is_terminated:
        run.alarm.wait(pause_s, BLOCK_BYTES)
        pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
        is_there = run.uploader.segment(is_apart=True) and upload_final(run, 0.0)
    run.report()
