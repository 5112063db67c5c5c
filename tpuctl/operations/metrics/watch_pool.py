"""What is watched because somebody looks at it, and for a minute longer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpuctl.models.job import JobRecord
from tpuctl.models.job_log import LogLine
from tpuctl.models.node import Node
from tpuctl.operations.metrics.slice_watch import SliceWatch
from tpuctl.operations.metrics.watched_slice import WatchedSlice

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.operations.jobs.events import JobRuntime

KEPT_S = 60.0
"""Longer than Prometheus takes from one look to the next."""


@dataclass(slots=True)
class KeptWatch:
    """A watch of one job or node, and what ends it when nobody looks any more."""

    watching: SliceWatch
    ending: asyncio.TimerHandle

    @property
    def slice(self) -> WatchedSlice:
        """The job or node that it watches."""
        return self.watching.slices[0]


@dataclass(slots=True)
class WatchPool:
    """Watches jobs and nodes in the running event loop, each once."""

    runtime: JobRuntime
    access: Access
    _kept: dict[str, KeptWatch] = field(default_factory=dict)
    _ended: set[asyncio.Task[object]] = field(default_factory=set)

    def job(self, job: JobRecord) -> WatchedSlice:
        """A job with what its workers report now, from the first look on."""
        return self._watch(f"job {job.job_id}", WatchedSlice(job.job_id, job, is_over=job.is_ended))

    def node(self, node: Node) -> WatchedSlice:
        """A node with what its workers report now, from the first look on."""
        return self._watch(f"node {node.node_id}", WatchedSlice(node.name, node=node))

    @property
    def slices(self) -> list[WatchedSlice]:
        """All that is watched now."""
        return [each.slice for each in self._kept.values()]

    def lines(self, job: JobRecord) -> list[LogLine]:
        """The newest lines of a job that is watched, as its workers print them."""
        kept = self._kept.get(f"job {job.job_id}")
        return [line for _, line in kept.watching.lines] if kept else []

    async def close(self) -> None:
        """Let go of all workers."""
        for key in list(self._kept):
            self._end(key)
        await asyncio.gather(*self._ended, return_exceptions=True)

    def _watch(self, key: str, wanted: WatchedSlice) -> WatchedSlice:
        kept = self._kept.get(key)
        if kept is None:
            watching = SliceWatch(self.runtime, self.access, [wanted])
            watching.start()
        else:
            watching = kept.watching
            kept.ending.cancel()
        ending = asyncio.get_running_loop().call_later(KEPT_S, self._end, key)
        self._kept[key] = KeptWatch(watching, ending)
        return watching.slices[0]

    def _end(self, key: str) -> None:
        kept = self._kept.pop(key)
        kept.ending.cancel()
        task = asyncio.get_running_loop().create_task(kept.watching.stop())
        self._ended.add(task)
        task.add_done_callback(self._ended.discard)
