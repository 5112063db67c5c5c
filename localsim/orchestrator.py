"""The orchestrator: hands the cloud's events to the workers, in order, and reports back."""

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from localsim.clock import Clock
from localsim.group_commit import GroupCommit
from localsim.rules.cloud import Cloud
from localsim.rules.db.journal import NotWrittenError
from localsim.rules.model import events
from localsim.rules.model.cloud_errors import CloudError
from localsim.rules.model.nodes import Node
from localsim.rules.scenario import fault_texts
from localsim.rules.scenario.fault_types import FaultEffect, WorkerFault
from localsim.rules.scenario.scenario_checks import ScenarioError
from localsim.worker_facts import HostIdentity
from localsim.worker_specs import absent_identities, fault_effects_of, slice_spec
from localsim.workers.autocheckpoint import Autocheckpoints
from localsim.workers.disk.slice_disk import NewerDiskError
from localsim.workers.processes import UnkillableError
from localsim.workers.slices import Slices
from localsim.workers.spec import AttributeNotPublishedError, SliceSpec

T = TypeVar("T")

_SUFFERED = (events.DestroySlice, events.NoticePreemption, events.ApplyWorkerFaults)
RETRY_S = 0.2
"""Real seconds between two tries to write what nobody can be refused."""


class Orchestrator:
    """Runs every request between two ticks of the cloud, and acts on its events."""

    def __init__(
        self,
        cloud: Cloud,
        slices: Slices,
        clock: Clock,
        *,
        project_metadata: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Join a cloud and its slices; nothing happens before `live` or `run`."""
        self._project_metadata = project_metadata
        self.cloud = cloud
        self.slices = slices
        self.clock = clock
        self._commits = GroupCommit(cloud.batch, self._let_follow)
        self._sooner = asyncio.Event()
        self._committed = asyncio.Event()
        """Set, and replaced, when something has changed."""
        self._awaited_s: float | None = None
        self._tails: dict[str, asyncio.Task[None]] = {}
        self._suffering: set[asyncio.Task[None]] = set()
        self._checkpoints = Autocheckpoints(slices, clock)
        self._handlers: dict[type, Callable[..., Awaitable[None]]] = {
            events.BootSlice: self._boot,
            events.StopSlice: self._stop,
            events.DestroySlice: lambda event: slices.destroy(event.node.name),
            events.NoticePreemption: lambda event: slices.notice(event.node.name),
            events.ShowMetadata: lambda event: self._show(event.node),
            events.NoticeMaintenance: self._maintenance,
            events.ApplyWorkerFaults: lambda event: slices.apply_faults(self._spec(event.node)),
        }

    async def run(self, action: Callable[[Cloud], T]) -> T:
        """Run `action` on a cloud that is up to date; the events that follow are acted on later.

        Returns when everything that it did, or saw, is on disk. Actions that come at the same time
        share one flush of the disk. Raises NotWrittenError, with nothing done, when that fails.
        """
        return await self._commits.run(partial(self._apply, action))

    def require_possible(self, fault: str) -> None:
        """Raise NotPossibleError for a fault that the workers cannot suffer in this isolation."""
        try:
            parsed = fault_texts.parse(fault)
        except ScenarioError:
            return  # the cloud refuses it in its own words
        if isinstance(parsed, WorkerFault):
            self.slices.require_possible(fault_effects_of([parsed]))

    def project_changed(self) -> None:
        """Show the project's metadata, as it is now, to all workers."""
        for node in self.cloud.nodes_with_disks():
            self._follow(node.name, partial(self._show, node))

    async def meet_fault(self, method: str) -> FaultEffect | None:
        """The effect of the faults of this call, or None, after its latency has passed."""
        verdict = self.cloud.meet_fault(method)
        if verdict is not None and verdict.latency_s:
            await self.clock.pause(verdict.latency_s)
        return verdict

    async def tell(
        self, name: str, worker: int, namespace: str, key: str, value: str | None
    ) -> None:
        """Write a worker's guest attribute; None deletes it. Raises AttributeNotPublishedError."""

        def news(cloud: Cloud) -> None:
            if value is None:
                cloud.delete_guest_attribute(name, worker, namespace, key)
            else:
                cloud.put_guest_attribute(name, worker, namespace, key, value)

        try:
            await self.run(news)
        except CloudError as error:
            raise AttributeNotPublishedError(error.message) from error

    async def lose(self, name: str, worker: int) -> None:
        """Record that a worker of a node has failed by itself."""
        await self._insist(lambda cloud: cloud.lose_worker(name, worker))

    async def reboot(self) -> None:
        """Boot the workers of READY nodes, as after a power cut."""
        if self.cloud.has_workers:
            boots = map(events.BootSlice, self.cloud.running_nodes())
            self._dispatch([self.cloud.with_fault_effects(boot) for boot in boots])
        await self.settle()

    async def live(self) -> None:
        """Do what falls due when it falls due, until cancelled."""
        while True:
            self._sooner.clear()
            self._awaited_s = self.cloud.next_due_s()
            await _first_of(self.clock.sleep_until(self._awaited_s), self._sooner.wait())
            await self._insist(_nothing)

    async def settle(self) -> None:
        """Return when every consequence of what is due now has happened.

        A checkpoint that programs are still taking is not waited for: the clock ends it.
        """
        await self.run(_nothing)
        while busy := [
            tail for name, tail in self._tails.items() if not self._checkpoints.waits(name)
        ]:
            self._checkpoints.begun.clear()
            await _first_of(asyncio.wait(busy), self._checkpoints.begun.wait())
            await self.run(_nothing)

    async def follow_through(self) -> None:
        """Return when the workers have suffered what has happened so far; boots go on."""
        if suffering := set(self._suffering):
            await asyncio.wait(suffering)

    async def until(self, condition: Callable[[Cloud], bool], wait_s: float | None) -> None:
        """Return when the condition is true, or real seconds have passed; None waits for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not condition(self.cloud):
                    await self._committed.wait()

    async def reset(self) -> None:
        """Delete every node, request and operation, and the workers with them."""
        await self.run(lambda cloud: cloud.clear())
        await self.settle()
        await self.slices.sweep(())  # the disks of nodes that could not be read

    def _apply(self, action: Callable[[Cloud], T]) -> T:
        """Run `action` between two ticks of the cloud, as a whole or not at all."""
        self.cloud.catch_up()
        with self.cloud.batch():
            result = action(self.cloud)
        self.cloud.catch_up()
        return result

    def _let_follow(self) -> None:
        """Act on the cloud's events, and wake `live` when an entry is due sooner than it knows."""
        self._committed.set()
        self._committed = asyncio.Event()
        try:
            self._dispatch(self.cloud.take_events())
        except NotWrittenError as error:  # a fault of the scenario could not be counted
            sys.stderr.write(f"{error.message}; trying again\n")
            asyncio.get_running_loop().call_later(RETRY_S, self._let_follow)
        due_s = self.cloud.next_due_s()
        if due_s is not None and (self._awaited_s is None or due_s < self._awaited_s):
            self._sooner.set()

    async def _insist(self, action: Callable[[Cloud], object]) -> None:
        """Run an action that nobody waits for, again until the disk takes it."""
        while True:
            try:
                await self.run(action)
            except NotWrittenError as error:
                if not error.may_pass:
                    raise
                sys.stderr.write(f"{error.message}; trying again\n")
                await asyncio.sleep(RETRY_S)
            else:
                return

    def _dispatch(self, happened: Sequence[events.Event]) -> None:
        for event in happened:
            handler = self._handlers[type(event)]
            if isinstance(event, events.DestroySlice):
                self._checkpoints.give_up(event.node.name)
            task = self._follow(event.node.name, lambda event=event, do=handler: do(event))  # type: ignore[misc]
            if isinstance(event, _SUFFERED):
                self._suffering.add(task)
                task.add_done_callback(self._suffering.discard)

    def _follow(self, name: str, do: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run `do` after the earlier events of the same node."""
        task = asyncio.ensure_future(self._after(self._tails.get(name), do))
        self._tails[name] = task
        task.add_done_callback(lambda done: self._forget(name, done))
        return task

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
            identities = await self._identities(event)
        except (OSError, NewerDiskError, UnkillableError) as error:
            traceback.print_exc(file=sys.stderr)
            message = f"The workers of '{name}' cannot boot: {error}"
            await self._insist(lambda cloud: cloud.mark_slice_failed(name, message))
            return
        if not event.never_boots:
            await self._insist(lambda cloud: cloud.mark_slice_booted(name, identities))

    async def _identities(self, event: events.BootSlice) -> Sequence[HostIdentity]:
        """Boot the workers and return their identities; made up where there are no workers."""
        if not self.cloud.has_workers:
            return absent_identities(event.node)
        spec = replace(
            self._spec(event.node),
            never_boots=event.never_boots,
            ssh_keys_delay_s=event.ssh_keys_delay_s,
        )
        return await self.slices.boot(spec)

    async def _stop(self, event: events.StopSlice) -> None:
        await self.slices.stop(event.node.name)
        await self._insist(lambda cloud: cloud.mark_slice_stopped(event.node.name))

    def _spec(self, node: Node) -> SliceSpec:
        return slice_spec(node, self.cloud, self._project_metadata())

    async def _show(self, node: Node) -> None:
        self.slices.show(self._spec(node))

    async def _maintenance(self, event: events.NoticeMaintenance) -> None:
        await self._show(event.node)
        if event.save_until_s is not None:
            await self._checkpoints.take(event.node.name, event.save_until_s)


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when the first of the waits is over; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _nothing(_cloud: Cloud) -> None:
    """Let time pass."""
