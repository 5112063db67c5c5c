"""One worker of an attempt: its connection, what it last said, and its log as it comes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from tpuctl.errors import RefusedError, TransientError
from tpuctl.jobs import protocol
from tpuctl.jobs.ports import Shell
from tpuctl.jobs.tail import Tail
from tpuctl.models.job import Phase, WorkerReport

RETRY_S = 0.5
COMMAND_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Run:
    """Which run on the worker a link is about."""

    job_id: str
    attempt: int

    def argv(self, verb: str, *options: str) -> list[str]:
        """A command to the run's agent."""
        return protocol.agent_argv(self.job_id, self.attempt, verb, *options)


@dataclass(slots=True)
class Link:
    """Keeps one worker's `watch` open until its run is over; reconnects for as long as it takes."""

    run: Run
    report: WorkerReport
    dial: Callable[[], Awaitable[Shell]]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    changed: Callable[[], None]
    """Called after every change of the report."""
    installation: bytes | None = None
    """The agent and its configuration, when the run may be begun."""
    on_log: Callable[[int, bytes], None] = lambda _offset, _data: None
    offset: int | None = None
    """Where the log is to start; None: where the bucket's part ends."""
    tail: Tail = field(default_factory=Tail)
    over: bool = False
    _shell: Shell | None = None
    _reached: bool = False
    _silent_since: float | None = None
    _told: set[str] = field(default_factory=set)

    def now(self) -> WorkerReport:
        """The report, with the time that the worker has been silent."""
        if self._silent_since is None:
            return self.report
        return replace(self.report, unreachable_s=self.monotonic() - self._silent_since)

    async def keep(self) -> None:
        """Connect and listen until the run is over."""
        while not self.over:
            try:
                async with await self.dial() as shell:
                    await self._listen(shell)
            except (TransientError, RefusedError) as error:
                self.report = replace(self.report, message=str(error))
            finally:
                self._shell = None
            if not self.over:
                if self._reached and self._silent_since is None:
                    self._silent_since = self.monotonic()
                self.changed()
                await self.sleep(RETRY_S)

    async def tell(self, verb: str, *options: str) -> None:
        """Give the agent a command, once; nothing happens while it cannot be reached."""
        if self._shell is None or verb in self._told or self.over:
            return
        try:
            argv = self.run.argv(verb, *options)
            done = await self._shell.run(argv, timeout_s=COMMAND_TIMEOUT_S)
        except TransientError:
            return
        if done.exit_status == 0:
            self._told.add(verb)

    async def _listen(self, shell: Shell) -> None:
        if not await self._begun(shell):
            self._end(protocol.lost(self.report, "lost its run: the worker was restarted"))
            return
        self._shell, self._reached, self._silent_since = shell, True, None
        options = [] if self.offset is None else ["--offset", str(self.offset)]
        async for message in protocol.messages(shell.stream(self.run.argv("watch", *options))):
            self._take(message)

    async def _begun(self, shell: Shell) -> bool:
        """The run is there; it is begun when it may be."""
        if self.installation is None:
            done = await shell.run(self.run.argv("status"), timeout_s=COMMAND_TIMEOUT_S)
            return done.exit_status == 0
        done = await shell.run(
            protocol.install_argv(), stdin=self.installation, timeout_s=COMMAND_TIMEOUT_S
        )
        if done.exit_status != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"]
            raise TransientError(f"the agent does not start: {lines[-1]}")
        return True

    def _take(self, message: dict[str, object]) -> None:
        if "offset" in message:
            self._take_log(int(str(message["offset"])), protocol.log_bytes(message))
        status = message.get("status")
        if isinstance(status, dict):
            self.tail.drop(int(status.get("uploaded_bytes", 0)))
            self._set(replace(protocol.reported(self.report, status), message=""))
        if "gone" in message:
            gone = bool(message["gone"])
            self._end(protocol.lost(self.report, "lost its agent") if gone else self.report)

    def _take_log(self, offset: int, data: bytes) -> None:
        self.offset = None if self.offset is None else offset + len(data)
        new = self.tail.add(offset, data)
        self.report = protocol.with_progress(self.report, new)
        self.on_log(offset, data)
        self.changed()

    def _set(self, report: WorkerReport) -> None:
        changed = report != self.report
        self.report = report
        if changed:
            self.changed()

    def broken(self, task: asyncio.Task[None]) -> None:
        """Its task has ended; when not as it should, what the worker does is not known any more."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._end(protocol.lost(self.report, f"cannot be followed: {error!r}"))

    def _end(self, report: WorkerReport) -> None:
        self.over, self.report = True, report
        self.changed()


def connecting(worker_id: int) -> WorkerReport:
    """The report of a worker that nobody has heard of yet."""
    return WorkerReport(worker_id, Phase.CONNECTING)


def kept(link: Link) -> asyncio.Task[None]:
    """Keep a link in the background."""
    task = asyncio.create_task(link.keep())
    task.add_done_callback(link.broken)
    return task


async def cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
