"""Keeps this process's heartbeat going while it holds jobs, and notices when it was taken away."""

import asyncio
import os
import platform
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tpuctl.errors import TpuctlError
from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.leases.heartbeat import Heartbeat
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.store import Store


@dataclass(slots=True)
class HeartbeatSender:
    """Sends heartbeats, under a new holder's name whenever the last one was taken for dead."""

    store: Store
    host_id: str
    """Of this machine and context: what the holder's name begins with."""
    scope: SupervisorScope
    clocks: Clocks
    say: Callable[[str], None]
    steps: Callable[[], Mapping[str, object]] = dict
    """The newest step of each job that is looked after here, for who lists jobs."""
    heartbeat: Heartbeat = field(init=False)
    _since_s: float = 0.0
    _turns: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._since_s = self.clocks.now()
        self._begin_anew()

    @property
    def holder(self) -> str:
        """The name under which this process holds leases now."""
        return self.heartbeat.holder

    async def keep_beating(self, is_holding: Callable[[], bool], lost: Callable[[], None]) -> None:
        """Renew for as long as the task lives; calls `lost` when others took the jobs over."""
        while True:
            if is_holding():
                await self.beat(lost)
            elif self.heartbeat.generation:
                await self.leave()
            await self.clocks.sleep(self.scope.terms.renew_s)

    async def beat(self, lost: Callable[[], None]) -> None:
        """Renew the heartbeat once; an error of the bucket is reported and not raised."""
        async with self._turns:
            self.heartbeat.body = {**self.heartbeat.body, "steps": self.steps()}
            try:
                await asyncio.to_thread(self.heartbeat.beat)
            except LeaseLostError:
                lost()
                self._begin_anew()
            except TpuctlError as error:
                self.say(f"heartbeat: {error}")

    async def leave(self) -> None:
        """Delete the heartbeat, which lets go of every lease under its name."""
        async with self._turns:
            try:
                await asyncio.to_thread(self.heartbeat.leave)
            except TpuctlError as error:
                self.say(f"the heartbeat stays: {error}")

    def _begin_anew(self) -> None:
        body = {
            "host": platform.node(),
            "pid": os.getpid(),
            "owner": self.scope.accepts[0] if self.scope.accepts else "",
            "accepts": list(self.scope.accepts),
            "since_s": self._since_s,
        }
        holder = f"{self.host_id}-{secrets.token_hex(4)}"
        elapsed = self.clocks.elapsed or self.clocks.monotonic
        self.heartbeat = Heartbeat(self.store, holder, body, elapsed, self.scope.terms)
