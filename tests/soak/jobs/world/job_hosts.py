"""The hosts of a history's slices, and shells to them from its machines."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from soak.checkpoints.strands import Outcome
from soak.jobs.world.virtual_time import EPOCH_S, Machine, Universe
from tpuctl.errors import TransientError
from tpuctl.models.operation import CommandFailedError, CommandResult

if TYPE_CHECKING:
    from soak.jobs.world.job_agents import Agent

SILENCE_S = 25.0
"""An SSH connection that hears nothing for so long is given up."""
CONNECT_S = 10.0
FOR_EVER_S = float("inf")


class Host:
    """One worker: up or not, to be reached or not, with the runs on its disk."""

    def __init__(self, universe: Universe, address: str) -> None:
        self.universe = universe
        self.address = address
        self.key = ""
        self.is_up = self.is_noticed = False
        self.silent_until_s = 0.0
        self.life = 0
        """Changes when everything that runs here ends."""
        self.wall_offset_s = 0.0
        self.runs: dict[str, Agent] = {}
        self.fences: dict[str, int] = {}
        self.channels: set[Channel] = set()
        self.on_boot: Callable[[], None] = lambda: None
        self.on_command: Callable[[Host, list[str], bytes, Channel | None], CommandResult]

    @property
    def is_silent(self) -> bool:
        return self.universe.now_s < self.silent_until_s

    def wall_s(self) -> float:
        return EPOCH_S + self.universe.now_s + self.wall_offset_s

    def lives(self) -> Callable[[], bool]:
        """True until everything here ends."""
        life = self.life
        return lambda: self.life == life

    def boot(self) -> None:
        self.key = f"ssh-ed25519 K-{self.address}"
        self.is_up = True

    def end(self) -> None:
        """It is gone for good, its disk with it; nothing answers at its address."""
        self._end_processes()
        self.runs.clear()
        self.silent_until_s = FOR_EVER_S
        self._break_later()

    def reboot(self, down_s: float) -> None:
        """Everything that ran here has ended; the disk is what it was."""
        if self.is_up:
            self._end_processes()
            for channel in list(self.channels):
                channel.end(TransientError("the connection broke"))
            self.universe.after(down_s, self._up_again)

    def cut_off(self, for_s: float) -> None:
        """It goes on, and nobody hears of it."""
        self.silent_until_s = max(self.silent_until_s, self.universe.now_s + for_s)
        self._break_later()

    def die(self) -> None:
        """The machine is dead, and its slice does not know."""
        self._end_processes()
        self.cut_off(FOR_EVER_S)

    def _end_processes(self) -> None:
        self.life += 1
        self.is_up = False
        for run in self.runs.values():
            run.perish()

    def _up_again(self) -> None:
        self.is_up = True
        self.on_boot()

    def _break_later(self) -> None:
        for channel in list(self.channels):
            self.universe.after(SILENCE_S, channel.break_if_silent)

    def answer(self, argv: Sequence[str], stdin: bytes, channel: "Channel | None") -> Outcome:
        """What comes back of a command that is sent here now."""
        if self.is_silent:
            outcome = Outcome(error=TransientError(f"no answer for {SILENCE_S:.0f} s"))
            outcome.stall_s = SILENCE_S
            return outcome
        if not self.is_up:
            return Outcome(error=TransientError("connection refused"))
        return Outcome(self.on_command(self, list(argv), stdin, channel))


class Channel:
    """What a command on a host prints, on its way to the machine that reads it."""

    def __init__(self, machine: Machine, host: Host) -> None:
        self.machine = machine
        self.host = host
        self.is_open = True
        self._came: deque[bytes | BaseException | None] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def print(self, message: dict[str, Any]) -> None:
        self._send(json.dumps(message).encode() + b"\n")

    def end(self, error: BaseException | None) -> None:
        """Nothing more comes."""
        if self.is_open:
            self._send(error)
            self.close()

    def close(self) -> None:
        self.is_open = False
        self.host.channels.discard(self)

    def break_if_silent(self) -> None:
        if self.host.is_silent:
            self.host.silent_until_s, was = 0.0, self.host.silent_until_s
            self.end(TransientError(f"no answer for {SILENCE_S:.0f} s"))
            self.host.silent_until_s = was

    async def read(self) -> bytes | None:
        """What came next; None at the end. Raises what broke it."""
        while not self._came:
            self._waiter = self.machine.loop.create_future()
            await self._waiter
        item = self._came.popleft()
        if isinstance(item, BaseException):
            raise item
        return item

    def _send(self, item: bytes | BaseException | None) -> None:
        if not self.is_open or self.machine.is_dead:
            return
        universe = self.host.universe
        delay_s = max(0.0, self.host.silent_until_s - universe.now_s) + 0.01
        if delay_s < FOR_EVER_S:
            universe.after(delay_s, lambda: self.machine.deliver(lambda: self._arrive(item)))

    def _arrive(self, item: bytes | BaseException | None) -> None:
        self._came.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class RemoteShell:
    """One connection from a machine to a host."""

    def __init__(self, machine: Machine, host: Host, worker_id: int) -> None:
        self.machine = machine
        self.host = host
        self.worker_id = worker_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: Any) -> None:
        return None

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None
    ) -> CommandResult:
        done: CommandResult = await self.machine.ask_soon(
            lambda: self.host.answer(argv, stdin, None), 0.05
        )
        return done

    async def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> AsyncIterator[bytes]:
        channel = Channel(self.machine, self.host)
        try:
            done: CommandResult = await self.machine.ask_soon(
                lambda: self.host.answer(argv, stdin, channel), 0.05
            )
            if done.exit_status != 0:
                raise CommandFailedError(done)
            while (chunk := await channel.read()) is not None:
                yield chunk
        finally:
            channel.close()


async def open_shell(machine: Machine, host: Host, worker_id: int) -> RemoteShell:
    """Log in to a host."""

    def logged_in() -> Outcome:
        silence_s = max(0.0, host.silent_until_s - host.universe.now_s)
        if silence_s > CONNECT_S:
            outcome = Outcome(error=TransientError("the connection timed out"))
            outcome.stall_s = CONNECT_S
            return outcome
        if not host.is_up:
            return Outcome(error=TransientError("connection refused"))
        outcome = Outcome(RemoteShell(machine, host, worker_id))
        outcome.stall_s = silence_s  # what was lost is sent again
        return outcome

    shell: RemoteShell = await machine.ask_soon(logged_in, 0.1)
    return shell
