"""Measures the workers of a node now, with a program that is shipped to them and leaves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpuctl.agent import ship
from tpuctl.jobs.record import decoding
from tpuctl.metrics.samples import Sample
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote.fanout import WorkerReach, run_on_each
from tpuctl.operations.remote.shipping import JsonLineReader

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell

OnSample = Callable[[int, Sample], None]
"""Called with the number of a worker and what was measured on it."""


async def watch_workers(
    reach: WorkerReach,
    on_sample: OnSample,
    *,
    every_s: float,
    count: int,
    again_s: float | None = None,
) -> dict[int, str]:
    """Measure every worker `count` times; returns why, for each that could not be measured.

    With `again_s` a worker that is lost is tried again after so many seconds. Raises RefusedError
    for a worker that shows a wrong host key.
    """
    argv = [*ship.command(ship.PROBE), str(every_s), str(count)]
    failures: dict[int, str] = {}

    async def watch(shell: Shell) -> CommandResult:
        def take(told: dict[str, Any]) -> None:
            on_sample(shell.worker_id, decoding.decode_dataclass(Sample, told))

        lines = JsonLineReader(take)
        try:
            status = await shell.execute(argv, out=lines.out, err=lines.err)
        except decoding.MalformedError as error:
            failures[shell.worker_id] = f"its sample cannot be read: {error}"
            return CommandResult(shell.worker_id, 0)
        if status:
            failures[shell.worker_id] = lines.complaint
        return CommandResult(shell.worker_id, status)

    for result in await run_on_each(reach, watch, again_s=again_s):
        if result.refusal:
            raise result.refusal
        if result.lost:
            failures[result.worker_id] = result.lost_because
    return failures
