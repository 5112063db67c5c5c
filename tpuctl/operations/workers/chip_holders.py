"""Who holds the chips of a node's workers, and an end to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tpuctl.agent import ship
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

    worker_id: int
    pid: int
    user: str
    command: str
    since_s: float
    holds: tuple[str, ...]
    job: str
    started: int
    """In ticks of the worker's kernel: with the pid it names one process and no later one."""


@dataclass(frozen=True, slots=True)
class WorkerChipUse:
    """What was found on one worker."""

    worker_id: int
    holders: tuple[ChipHolder, ...] = ()
    stale: tuple[str, ...] = ()
    """Lock files that nobody holds."""
    unseen: tuple[str, ...] = ()
    """Files that somebody holds whom our account may not see."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FreeResult:
    """What was done on one worker."""

    worker_id: int
    state: str
    ended: tuple[int, ...] = ()
    killed: tuple[int, ...] = ()
    removed: tuple[str, ...] = ()
    error: str | None = None


def find_holders(reach: WorkerReach) -> list[WorkerChipUse]:
    """Find the processes that hold the chips of each worker; a lost worker has an error."""
    return [_worker_chip_use(number, found) for number, found in _ask_workers(reach, {}).items()]


def free_chips(reach: WorkerReach, sightings: Sequence[WorkerChipUse]) -> list[FreeResult]:
    """End the processes that were seen, and only those; remove lock files that nobody holds."""
    orders = {
        one.worker_id: {
            "free": [(each.pid, each.started) for each in one.holders],
            "grace_s": GRACE_S,
        }
        for one in sightings
        if one.holders or one.stale
    }
    busy = replace(reach, workers=[each for each in reach.workers if each.worker_id in orders])
    answers = _ask_workers(busy, orders) if orders else {}
    return [
        _free_result(one.worker_id, answers[one.worker_id])
        if one.worker_id in answers
        else _untouched_result(one)
        for one in sightings
    ]


def _untouched_result(seen: WorkerChipUse) -> FreeResult:
    """The result of a worker on which there was nothing to do, or nothing that could be done."""
    if seen.error:
        return FreeResult(seen.worker_id, FreeState.LOST, error=seen.error)
    if seen.unseen:
        return FreeResult(seen.worker_id, FreeState.HELD, error=_UNSEEN)
    return FreeResult(seen.worker_id, FreeState.FREE)


def _ask_workers(reach: WorkerReach, orders: Mapping[int, Any]) -> dict[int, Mapping[str, Any]]:
    """The answer of every worker by its ID; with the key `error` when there is none."""
    argv = ship.command(ship.HOLDERS)
    answers: dict[int, Mapping[str, Any]] = {}

    async def work(shell: Shell) -> CommandResult:
        heard: list[Mapping[str, Any]] = []
        lines = JsonLineReader(heard.append)
        one = [*argv, json.dumps(orders.get(shell.worker_id, {}))]
        status = await shell.execute(one, out=lines.out, err=lines.err)
        failed = {"error": f"exit status {status}: {lines.complaint}"}
        answers[shell.worker_id] = heard[-1] if heard and status == 0 else failed
        return CommandResult(shell.worker_id, status)

    lost = {
        one.worker_id: {"error": one.lost_because} for one in run_on_reach(reach, work) if one.lost
    }
    return {
        worker.worker_id: lost.get(worker.worker_id) or answers[worker.worker_id]
        for worker in reach.workers
    }


def _worker_chip_use(worker_id: int, found: Mapping[str, Any]) -> WorkerChipUse:
    if "error" in found:
        return WorkerChipUse(worker_id, error=str(found["error"]))
    return WorkerChipUse(
        worker_id,
        tuple(_holder(worker_id, each) for each in found["holders"]),
        tuple(found["stale"]),
        tuple(found["unseen"]),
    )


def _holder(worker_id: int, found: Mapping[str, Any]) -> ChipHolder:
    return ChipHolder(
        worker_id,
        pid=int(found["pid"]),
        user=str(found["user"]),
        command=str(found["command"]),
        since_s=float(found["since_s"]),
        holds=tuple(found["holds"]),
        job=str(found["job"]),
        started=int(found["started"]),
    )


def _free_result(worker_id: int, found: Mapping[str, Any]) -> FreeResult:
    if "error" in found:
        return FreeResult(worker_id, FreeState.LOST, error=str(found["error"]))
    left = [each["pid"] for each in found["holders"]]
    error = None
    if found["unseen"]:
        error = _UNSEEN
    if left:
        refused = " (not ours, and sudo is not allowed)" if found["refused"] else ""
        error = f"still held by {', '.join(map(str, left))}{refused}"
    state = FreeState.HELD if error else FreeState.FREE
    removed, ended, killed = (tuple(found[key]) for key in ("removed", "ended", "killed"))
    return FreeResult(worker_id, state, ended, killed, removed, error)
