"""Deletes the slices of the context whose TTL is over, or that nobody has used for too long.

Any supervisor of the context does it, for every slice with the labels, a job's or not. Two that
delete the same slice do no harm. The time is the storage service's, as it dates the heartbeat:
a machine with a wrong clock deletes nothing too early.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tpuctl.errors import NotFoundError, TpuctlError
from tpuctl.jobs.interfaces import Clocks, NodeApi
from tpuctl.jobs.leases.heartbeat import Heartbeat
from tpuctl.jobs.leases.heartbeat_sender import HeartbeatSender
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.models.limits import slice_lifetime
from tpuctl.models.node import Node, NodeState

EVERY_S = 30.0
"""Between two looks at the nodes of the context."""


@dataclass(slots=True)
class OverdueSlices:
    """Looks at the nodes of a context again and again, and deletes those that are overdue."""

    nodes: NodeApi
    sender: HeartbeatSender
    """Its heartbeat is the fence: a process that was stopped meanwhile deletes nothing."""
    lost: Callable[[], None]
    """Called when others took this supervisor for dead."""
    clocks: Clocks
    say: Callable[[str], None]
    has_looked: bool = False
    """Whether a look is over: a supervisor with nothing else to do does not leave before."""
    troubles: set[str] = field(default_factory=set)
    """What was said of what went wrong."""

    async def keep_deleting(self) -> None:
        """Look and delete, for as long as the task lives; an error is said once."""
        while True:
            try:
                await self.delete_once()
            except (TpuctlError, LeaseLostError) as error:
                self._report(f"cannot look for overdue slices: {error}")
            self.has_looked = True
            await self.clocks.sleep(EVERY_S)

    async def delete_once(self) -> None:
        """Delete what is overdue now. Raises TpuctlError, LeaseLostError."""
        nodes, _ = await asyncio.to_thread(self.nodes.read_nodes)
        limited = [node for node in nodes if slice_lifetime.has_lifetime(node.labels)]
        if not limited:
            return
        await self.sender.beat(self.lost)
        for node in limited:
            await self._delete(node)

    async def _delete(self, node: Node) -> None:
        name, heartbeat = f"node {node.name} in {node.zone}", self.sender.heartbeat
        try:
            why = await asyncio.to_thread(delete_if_overdue, self.nodes, node, heartbeat)
        except TpuctlError as error:  # the others are deleted all the same
            self._report(f"{name} is overdue, and cannot be deleted: {error}")
            return
        if why:
            self.say(f"{name} is deleted: {why}")

    def _report(self, text: str) -> None:
        if text not in self.troubles:
            self.troubles.add(text)
            self.say(text)


def delete_if_overdue(api: NodeApi, seen: Node, heartbeat: Heartbeat) -> str | None:
    """Delete a node, and the queued resource that owns it, if it is overdue; returns why.

    It is read again before. Raises LeaseLostError and TransientError when the heartbeat is not
    fresh, and what the API raises.
    """
    if overdue_text(api, seen, heartbeat.service_now_s()) is None:
        return None
    try:
        node = api.get_node(seen.zone, seen.name)
        if (node.node_id, node.created_s) != (seen.node_id, seen.created_s):
            return None  # another one of the same name
        why = overdue_text(api, node, heartbeat.service_now_s())
        heartbeat.check()
        if why and node.queued_resource:
            api.delete_queued_resource(node.zone, node.queued_resource, force=True)
        elif why:
            api.delete_node(node.zone, node.name)
    except NotFoundError:
        return None
    return why


def overdue_text(api: NodeApi, node: Node, now_s: float) -> str | None:
    """Why a node is overdue; None while it is not, or is being deleted, or nothing is known."""
    if node.state == NodeState.DELETING:
        return None
    reports = slice_lifetime.activity_reports(api, node)
    return slice_lifetime.overdue_reason(
        node.labels, node.created_s, reports, node.worker_count, now_s
    )
