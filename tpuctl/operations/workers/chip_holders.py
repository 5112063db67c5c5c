"""Who holds the chips of a node's workers, and an end to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tpuctl.agent import ship
from tpuctl.jobs.record.decoding import decode_dataclass
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote.fanout import WorkerReach, run_on_reach
from tpuctl.operations.remote.shipping import JsonLineReader

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell

GRACE_S = 10.0
"""Between SIGTERM and SIGKILL, as a preempted program would not be given either."""
_UNSEEN = "held by a process that our account may not see, and sudo is not allowed to it"


class FreeState(StrEnum):
    """Whether the chips of a worker are held."""

    FREE = "FREE"
    HELD = "HELD"
    LOST = "LOST"
    """The worker could not be reached."""


@dataclass(frozen=True, slots=True)
class ChipHolder:
    """A process that has the chips' device files or libtpu's lock open."""

    pid: int
    user: str
    command: str
    since_s: float
    job: str
    started: int
    """In ticks of the worker's kernel: with the pid it names one process and no later one."""


@dataclass(frozen=True, slots=True)
class WorkerChipUse:
    """What the program on one worker found, and what it did when it was told to free the chips."""

    worker_id: int
    holders: tuple[ChipHolder, ...] = ()
    stale: tuple[str, ...] = ()
    """Lock files that nobody holds."""
    unseen: tuple[str, ...] = ()
    """Files that somebody holds whom our account may not see."""
    ended: tuple[int, ...] = ()
    killed: tuple[int, ...] = ()
    removed: tuple[str, ...] = ()
    refused: tuple[int, ...] = ()
    """Processes of others, which our account may not end."""
    state: FreeState = FreeState.FREE
    """The state of its chips after the command tried to free them."""
    error: str | None = None


def find_holders(reach: WorkerReach) -> list[WorkerChipUse]:
    """Find the processes that hold the chips of each worker; a lost worker has an error."""
    return list(_ask_workers(reach, {}).values())


def free_chips(reach: WorkerReach, sightings: Sequence[WorkerChipUse]) -> list[WorkerChipUse]:
    """End the processes that were seen, and only those; remove lock files that nobody holds."""
    orders = {
        seen.worker_id: {
            "free": [(holder.pid, holder.started) for holder in seen.holders],
            "grace_s": GRACE_S,
        }
        for seen in sightings
        if seen.holders or seen.stale
    }
    busy = [worker for worker in reach.workers if worker.worker_id in orders]
    answers = _ask_workers(replace(reach, workers=busy), orders) if orders else {}
    return [_with_state(answers.get(seen.worker_id, seen)) for seen in sightings]


def _ask_workers(reach: WorkerReach, orders: Mapping[int, Any]) -> dict[int, WorkerChipUse]:
    """The answer of every worker by its ID; one with an `error` when there is none."""
    argv = ship.command(ship.HOLDERS)
    answers: dict[int, WorkerChipUse] = {}

    async def work(shell: Shell) -> CommandResult:
        heard: list[Mapping[str, Any]] = []
        lines = JsonLineReader(heard.append)
        command = [*argv, json.dumps(orders.get(shell.worker_id, {}))]
        status = await shell.execute(command, out=lines.out, err=lines.err)
        failed = {"error": f"exit status {status}: {lines.complaint}"}
        answer = heard[-1] if heard and status == 0 else failed
        answers[shell.worker_id] = decode_dataclass(
            WorkerChipUse, {**answer, "worker_id": shell.worker_id}
        )
        return CommandResult(shell.worker_id, status)

    for result in run_on_reach(reach, work):
        if result.lost:
            answers[result.worker_id] = WorkerChipUse(result.worker_id, error=result.lost_because)
    return {worker.worker_id: answers[worker.worker_id] for worker in reach.workers}


def _with_state(use: WorkerChipUse) -> WorkerChipUse:
    """The same with the state of the chips, and why they are not free."""
    if use.error:
        return replace(use, state=FreeState.LOST)
    error = _UNSEEN if use.unseen else None
    if use.holders:
        refused = " (not ours, and sudo is not allowed)" if use.refused else ""
        pids = ", ".join(str(holder.pid) for holder in use.holders)
        error = f"still held by {pids}{refused}"
    return replace(use, state=FreeState.HELD if error else FreeState.FREE, error=error)
