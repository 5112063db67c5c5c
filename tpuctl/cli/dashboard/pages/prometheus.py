"""The text that Prometheus reads at the dashboard: every open job, and every node without one."""

import asyncio

from tpuctl.cli.dashboard.board import Board
from tpuctl.metrics.exporters.prometheus_text import exposition
from tpuctl.models.node import Node, NodeState
from tpuctl.operations.metrics.overview import Overview
from tpuctl.operations.metrics.prometheus import job_values, watched_values


async def metrics_text(board: Board) -> str:
    """The newest measurements. Whoever reads them again within a minute has the workers watched."""
    found = await asyncio.to_thread(board.overviews.read)
    jobs = [each.job for each in found.jobs if not each.job.is_ended]
    now_s = board.runtime.now()
    values = [value for job in jobs for value in job_values(job, now_s)]
    for watched in (*map(board.watches.job, jobs), *map(board.watches.node, free_nodes(found))):
        values += watched_values(watched, now_s)
    return exposition(values)


def free_nodes(found: Overview) -> list[Node]:
    """The READY nodes that no job has."""
    free = [each.node for each in found.nodes if not each.job_id]
    return [node for node in free if node.state == NodeState.READY]
