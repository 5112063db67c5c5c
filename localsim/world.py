"""The cloud's state joined to its workers: what the one decides, the other does, in order."""

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from localsim.clock import Clock
from localsim.cloud import events
from localsim.cloud.cloud import Cloud
from localsim.cloud.nodes import Node, WorkerIdentity
from localsim.workers.disk import NewerDiskError
from localsim.workers.processes import UnkillableError
from localsim.workers.slices import Slices
from localsim.workers.spec import SliceSpec

T = TypeVar("T")


class World:
    """Runs every request between two ticks of the cloud, and hands its events to the workers."""

    def __init__(self, cloud: Cloud, slices: Slices, clock: Clock) -> None:
        """Nothing happens before `live` or `run`."""
        self.cloud = cloud
        self.slices = slices
        self.clock = clock
        self._changed = asyncio.Event()
        self._tails: dict[str, asyncio.Task[None]] = {}
        self._handlers: dict[type, Callable[..., Awaitable[None]]] = {
            events.BootSlice: self._boot,
            events.StopSlice: self._stop,
            events.DestroySlice: self._destroy,
            events.NoticePreemption: self._notice,
            events.MetadataChanged: self._metadata,
        }

    async def run(self, action: Callable[[Cloud], T]) -> T:
        """Do `action` on a cloud that is up to date; its consequences follow by themselves."""
        self._dispatch(self.cloud.tick())
        try:
            return action(self.cloud)
        finally:
            self._dispatch(self.cloud.tick())
            self._changed.set()

    async def reboot(self) -> None:
        """Bring up the workers that should be up, as after a power cut."""
        for node in self.cloud.running_nodes():
            self._dispatch([events.BootSlice(node)])
        await self.settle()

    async def live(self) -> None:
        """Tick whenever something is due, for ever."""
        while True:
            self._changed.clear()
            due = asyncio.ensure_future(self.clock.sleep_until(self.cloud.next_due_s()))
            changed = asyncio.ensure_future(self._changed.wait())
            _, waiting = await asyncio.wait({due, changed}, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            self._dispatch(self.cloud.tick())

    async def settle(self) -> None:
        """Return when every consequence of what is due now has happened."""
        self._dispatch(self.cloud.tick())
        while self._tails:
            await asyncio.wait(self._tails.values())
            self._dispatch(self.cloud.tick())

    async def reset(self) -> None:
        """Delete every node, request and operation, and the workers with them."""
        await self.run(lambda cloud: cloud.clear())
        await self.settle()

    def _dispatch(self, found: Sequence[events.Event]) -> None:
        for event in found:
            handler = self._handlers[type(event)]
            self._follow(event.node.name, lambda event=event, do=handler: do(event))  # type: ignore[misc]

    def _follow(self, name: str, do: Callable[[], Awaitable[None]]) -> None:
        """Events of one node happen one after the other, those of several at once."""
        task = asyncio.ensure_future(self._after(self._tails.get(name), do))
        self._tails[name] = task
        task.add_done_callback(lambda done: self._forget(name, done))

    async def _after(
        self, previous: asyncio.Task[None] | None, do: Callable[[], Awaitable[None]]
    ) -> None:
        if previous is not None:
            await asyncio.wait({previous})  # its failure is no reason to leave the rest undone
        await do()

    def _forget(self, name: str, done: asyncio.Task[None]) -> None:
        if self._tails.get(name) is done:
            del self._tails[name]
        if not done.cancelled() and (error := done.exception()) is not None:
            traceback.print_exception(error, file=sys.stderr)

    async def _boot(self, event: events.BootSlice) -> None:
        name = event.node.name
        try:
            identities = await self.slices.boot(slice_spec(event.node, self.cloud))
        except (OSError, NewerDiskError, UnkillableError) as error:
            traceback.print_exc(file=sys.stderr)
            message = f"The workers of '{name}' cannot boot: {error}"
            await self.run(lambda cloud: cloud.slice_failed(name, message))
            return
        known = [WorkerIdentity(one.hostname, one.host_key) for one in identities]
        await self.run(lambda cloud: cloud.slice_booted(name, known))

    async def _stop(self, event: events.StopSlice) -> None:
        await self.slices.stop(event.node.name)
        await self.run(lambda cloud: cloud.slice_stopped(event.node.name))

    async def _destroy(self, event: events.DestroySlice) -> None:
        await self.slices.destroy(event.node.name)

    async def _notice(self, event: events.NoticePreemption) -> None:
        await self.slices.notice(event.node.name)

    async def _metadata(self, event: events.MetadataChanged) -> None:
        self.slices.update_metadata(event.node.name, event.node.metadata)


def slice_spec(node: Node, cloud: Cloud) -> SliceSpec:
    """What the workers need to know of a node."""
    return SliceSpec(
        name=node.name,
        node_id=node.id,
        project=cloud.project,
        project_number=cloud.project_number,
        zone=node.zone,
        accelerator_type=node.accelerator_type,
        runtime_version=node.runtime_version,
        spot=node.spot,
        addresses=node.addresses,
        metadata=node.metadata,
    )
