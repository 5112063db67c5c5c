"""One command on many workers at once, over SSH."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl.api.ssh.keys import Access
from tpuctl.errors import RefusedError, TransientError, UsageError
from tpuctl.models.delivery import Delivery, DeliveryState
from tpuctl.models.node import Node, Worker
from tpuctl.models.operation import CommandResult, without_worker_name

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_connections import WorkerConnections
    from tpuctl.api.ssh.worker_shell import Shell
    from tpuctl.api.tpu.tpu import TpuApi

AT_ONCE = 64
"""How many logins, or copies, go on at a time; commands run everywhere together: they may meet."""
MOST_WORKERS = 100_000
UNREACHABLE = 255
"""The exit status that stands for a worker that could not be reached, as ssh has it."""


@dataclass(frozen=True, slots=True)
class WorkerReach:
    """The workers of a node, and the way to them."""

    api: TpuApi
    access: Access
    node: Node
    workers: Sequence[Worker]
    first: int = 0
    """The number that the node's worker 0 has where several nodes work together."""


def select_workers(node: Node, workers: str) -> list[Worker]:
    """Workers by gcloud's grammar: `all`, `0`, `1,4,6`, `1-3`. Raises UsageError."""
    if workers == "all":
        return list(node.workers)
    numbers = numbers_among(len(node.workers), workers, f"node {node.name!r}")
    return [node.workers[number] for number in numbers]


def numbers_among(count: int, workers: str, owner: str) -> list[int]:
    """The numbers in `0`, `1,4,6` or `1-3`, each once, of the `count` workers that `owner` has.

    Raises UsageError.
    """
    ids = worker_ids(workers)
    missing = [number for number in ids if number >= count]
    if missing:
        raise UsageError(
            f"{owner} has no worker {missing[0]}", hint=f"it has workers 0 to {count - 1}"
        )
    return list(dict.fromkeys(ids))


def worker_ids(workers: str) -> list[int]:
    """The numbers in `0`, `1,4,6` or `1-3`. Raises UsageError."""
    return [number for part in workers.split(",") for number in _range(part, workers)]


def run_on_reach(
    reach: WorkerReach, work: Callable[[Shell], Awaitable[CommandResult]]
) -> list[CommandResult]:
    """Do the work on AT_ONCE workers of a reach at a time; a lost worker is a result, not an error.

    Raises RefusedError for a worker that shows a wrong host key.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def bounded(shell: Shell) -> CommandResult:
        async with gate:
            return await work(shell)

    results = asyncio.run(run_on_each(reach, bounded))
    for result in results:
        if result.refusal:
            raise result.refusal
    return results


def deliver_on_reach(
    reach: WorkerReach, work: Callable[[Shell], Awaitable[Delivery]]
) -> list[Delivery]:
    """Copy to or from every worker of a reach; one that fails stops no other."""
    deliveries: dict[int, Delivery] = {}

    async def deliver(shell: Shell) -> CommandResult:
        deliveries[shell.worker_id] = await work(shell)
        return CommandResult(shell.worker_id, 0)

    for result in run_on_reach(reach, deliver):
        if result.lost:
            deliveries[result.worker_id] = Delivery(
                result.worker_id, state=DeliveryState.LOST, error=result.lost_because
            )
    return [deliveries[worker.worker_id] for worker in reach.workers]


async def run_on_each(
    reach: WorkerReach,
    work: Callable[[Shell], Awaitable[CommandResult]],
    *,
    again_s: float | None = None,
) -> list[CommandResult]:
    """Do the work on all workers of a reach together; a lost worker is a result, not an error.

    With `again_s` a lost worker is tried again after so many seconds, for as long as it takes.
    """
    from tpuctl.api.ssh import worker_connections  # ssh takes a tenth of a second to load

    gate = asyncio.Semaphore(AT_ONCE)

    async def run_on_worker(connections: WorkerConnections, worker: Worker) -> CommandResult:
        result = await try_worker(connections, worker)
        while again_s is not None and result.lost and not result.refusal:
            await asyncio.sleep(again_s)
            result = await try_worker(connections, worker)
        return result

    async def try_worker(connections: WorkerConnections, worker: Worker) -> CommandResult:
        number = reach.first + worker.worker_id
        try:
            async with gate:
                shell = await _open_numbered(connections, reach, worker)
            async with shell:
                return await work(shell)
        except TransientError as error:
            return CommandResult(number, UNREACHABLE, lost=str(error))
        except RefusedError as error:
            return CommandResult(number, UNREACHABLE, lost=str(error), refusal=error)

    async with worker_connections.WorkerConnections(reach.api, reach.access) as connections:
        await connections.identify(reach.node)
        running = (run_on_worker(connections, worker) for worker in reach.workers)
        return list(await asyncio.gather(*running))


async def _open_numbered(
    connections: WorkerConnections, reach: WorkerReach, worker: Worker
) -> Shell:
    """A connection to a worker that goes by its number among those of all nodes."""
    try:
        shell = await connections.open(reach.node, worker)
    except TransientError as error:
        text = without_worker_name(worker.worker_id, str(error))
        raise TransientError(f"worker {reach.first + worker.worker_id}: {text}") from error
    shell.worker_id = reach.first + worker.worker_id
    return shell


def _range(part: str, whole: str) -> range:
    first, dash, last = part.partition("-")
    numbers = [first, last] if dash else [first]
    if not all(number.isascii() and number.isdecimal() for number in numbers):
        raise UsageError(f"{whole!r} does not name workers", hint="write all, 0, 1,4,6 or 1-3")
    lowest, highest = int(numbers[0]), int(numbers[-1])
    if not lowest <= highest <= MOST_WORKERS:
        raise UsageError(f"{part!r} is not a range of workers", hint="write it as 1-3")
    return range(lowest, highest + 1)
