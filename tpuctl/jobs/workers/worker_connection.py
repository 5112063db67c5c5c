"""One worker of an attempt: its connection, what it last said, and its log as it comes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tpuctl.errors import TpuctlError, TransientError
from tpuctl.jobs.interfaces import Clocks, WorkerShell
from tpuctl.jobs.record.decoding import MalformedError
from tpuctl.jobs.secrets.job_secrets import redact
from tpuctl.jobs.workers import installation as installing
from tpuctl.jobs.workers import protocol
from tpuctl.jobs.workers.log_tail import LogTail
from tpuctl.jobs.workers.sample_tail import AgentSample, SampleTail
from tpuctl.models.job import Phase, WorkerReport
from tpuctl.models.operation import CommandFailedError, without_worker_name

RETRY_S = 0.5
ABSENT_RETRY_S = 0.5
"""A run that is about to begin is looked for this often, over the same connection."""
COMMAND_TIMEOUT_S = 30.0
SILENCE_S = 4.5
"""An agent says something every 2 s; after two that did not come the connection is given up."""
STOOD_STILL_S = 2.0
"""Sleeping so much longer than asked, it was this process that was away, not the worker."""


@dataclass(slots=True)
class WorkerConnection:
    """Keeps one worker's `watch` open until its run is over; reconnects for as long as it takes."""

    run: str
    """The directory of the run on its worker, as protocol.run_directory names it."""
    report: WorkerReport
    dial: Callable[[], Awaitable[WorkerShell]]
    clocks: Clocks
    changed: Callable[[], None]
    """Called when the report says something else than before; figures alone are not news."""
    installation: bytes | None = field(default=None, repr=False)
    """The agent and its configuration, when the run may be begun."""
    on_log: Callable[[int, bytes], None] = lambda _offset, _data: None
    on_sample: Callable[[AgentSample], None] = lambda _sample: None
    offset: int | None = None
    """Where the log is to start; None: where the bucket's part ends."""
    is_patient: bool = False
    """Somebody else begins the run: while it is not there, it is looked for again."""
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Values that are in nothing that is shown."""
    tail: LogTail = field(default_factory=LogTail)
    samples: SampleTail = field(default_factory=SampleTail)
    over: bool = False
    is_fenced_off: bool = False
    """The agent has heard of a later supervisor than this one."""
    _shell: WorkerShell | None = None
    _reached: bool = False
    _heard_s: float = 0.0
    _active_s: float = 0.0
    _limit_s: float = COMMAND_TIMEOUT_S
    _silent_since: float | None = None
    _told: set[str] = field(default_factory=set)
    _newest_sample: tuple[float, AgentSample] | None = None
    """When it came, by this machine's clock."""

    def __post_init__(self) -> None:
        """A run that somebody else began is missed from now on, though it was never reached."""
        self._reached = self.installation is None
        self._heard_s = self._active_s = self.clocks.monotonic()

    def now(self) -> WorkerReport:
        """The report, with the time that the worker has been silent and what it said before."""
        report = self.report
        if report.phase == Phase.RUNNING:
            report = replace(report, quiet_s=self.clocks.monotonic() - self._active_s)
        if self._silent_since is not None and not self.over:
            silent_s = max(0.001, self.clocks.monotonic() - self._silent_since)
            report = replace(report, unreachable_s=silent_s)
        elif report.phase != Phase.LOST:
            return report
        return report if report.last_lines else replace(report, last_lines=self.tail.last_lines())

    def recent_sample(self, within_s: float) -> AgentSample | None:
        """What the worker measured last; None when that is older, or the run is over."""
        if self.over or self._newest_sample is None:
            return None
        heard_s, sample = self._newest_sample
        return sample if self.clocks.monotonic() - heard_s <= within_s else None

    async def keep(self) -> None:
        """Connect and listen until the run is over."""
        while not self.over:
            try:
                await self._attend()
            except (TpuctlError, OSError) as error:  # of ours or of the way: the run goes on
                self.report = replace(self.report, message=redact(str(error), self.hidden))
            finally:
                self._shell = None
            if not self.over:
                if self._reached and self._silent_since is None:  # it is noticed once
                    self._silent_since = self._heard_s  # the time counts from the last word
                    self.changed()
                await self.clocks.sleep(RETRY_S)

    async def tell(self, verb: str, fence: int, *options: str) -> None:
        """Give the agent a command, once; nothing happens while it cannot be reached."""
        if self._shell is None or verb in self._told or self.over:
            return
        argv = protocol.agent_argv(self.run, verb, *options, "--fence", str(fence))
        try:
            done = await self._shell.run(argv, timeout_s=COMMAND_TIMEOUT_S)
        except TransientError:
            return
        if done.exit_status == 0:
            self._told.add(verb)
        elif done.exit_status == protocol.FENCED_OFF:
            self._fence_off()

    # -------------------------------------------------------------- the connection

    async def _attend(self) -> None:
        """Connect once, and listen until it breaks, falls silent, or the run is over."""
        tasks: list[asyncio.Task[None]] = []
        try:
            async with await self.dial() as shell:
                self._heard_s, self._limit_s = self.clocks.monotonic(), COMMAND_TIMEOUT_S
                tasks = [*map(asyncio.create_task, (self._listen(shell), self._silence()))]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                heard, silent = tasks[0].done(), tasks[1].done()
        finally:  # when it is closed: a command on a connection that is cut off ends no sooner
            await cancel_tasks(tasks)
        if silent and not heard:
            raise TransientError(f"no message for {self._limit_s:g} s")
        tasks[0].result()

    async def _silence(self) -> None:
        """Returns when nothing was heard for too long."""
        while (left_s := self._heard_s + self._limit_s - self.clocks.monotonic()) > 0:
            asked_s, began_s = min(left_s, SILENCE_S), self.clocks.monotonic()
            await self.clocks.sleep(asked_s)
            if self.clocks.monotonic() - began_s > asked_s + STOOD_STILL_S:
                self._heard_s = self.clocks.monotonic()

    async def _listen(self, shell: WorkerShell) -> None:
        while not self.over:
            try:
                await self._stream(shell)
            except CommandFailedError as error:
                self._judge(error)
            if not self.over and self.is_patient:
                await self.clocks.sleep(ABSENT_RETRY_S)
            elif not self.over:
                raise TransientError("its agent's watch ended")

    async def _stream(self, shell: WorkerShell) -> None:
        """What the agent says; a run that may be begun is begun by the same command."""
        argv, stdin = installing.install_argv(self.run), self.installation
        if stdin is None:
            options = [] if self.offset is None else ["--offset", str(self.offset)]
            argv = protocol.agent_argv(self.run, "watch", *options)
            if self.is_patient:
                argv = protocol.patient_argv(self.run, *options)
        async for message in protocol.read_messages(shell.stream(argv, stdin=stdin or b"")):
            self._hear(shell)
            self._take(message)

    def _judge(self, error: CommandFailedError) -> None:
        """Decide what a failed command of the agent means: another try, or the end of the run."""
        why = without_worker_name(error.done.worker_id, str(error))
        if error.done.exit_status == protocol.UNREACHED:
            raise TransientError(why) from error
        if self.installation is not None:
            if error.done.exit_status != protocol.FENCED_OFF:
                raise TransientError(f"the agent does not start: {why}") from error
            self._fence_off()
        elif self._shell is not None:
            raise error
        elif not self.is_patient:
            self._end(protocol.lost_report(self.report, "lost its run: the worker was restarted"))

    def _hear(self, shell: WorkerShell) -> None:
        self._heard_s = self.clocks.monotonic()
        if self._shell is None:
            self._shell, self._reached, self._limit_s = shell, True, SILENCE_S
        if self._silent_since is not None:
            self._silent_since = None
            self.changed()

    # -------------------------------------------------------------- what it says

    def _take(self, message: dict[str, object]) -> None:
        if "offset" in message:
            self._take_log(int(str(message["offset"])), protocol.log_bytes(message))
        status = message.get("status")
        if isinstance(status, dict):
            self.tail.drop(int(status.get("uploaded_bytes", 0)))
            self._set(protocol.apply_status(self.report, status))
            with suppress(MalformedError):  # no reason to lose a worker
                if new := self.samples.add(status.get("sample")):
                    self._newest_sample = self.clocks.monotonic(), new
                    self.on_sample(new)
        if "gone" in message:
            gone = bool(message["gone"])
            self._end(protocol.lost_report(self.report, "lost its agent") if gone else self.report)

    def _take_log(self, offset: int, data: bytes) -> None:
        self.offset = None if self.offset is None else offset + len(data)
        new = self.tail.add(offset, data)
        if new:
            self._active_s = self.clocks.monotonic()
        self._set(protocol.with_progress(self.report, new))
        self.on_log(offset, data)

    def _set(self, report: WorkerReport) -> None:
        moved = (report.phase, report.step, report.active_s)
        if moved != (self.report.phase, self.report.step, self.report.active_s):
            self._active_s = self.clocks.monotonic()
        is_news = protocol.without_figures(report) != protocol.without_figures(self.report)
        self.report = report
        if is_news:
            self.changed()

    def on_task_done(self, task: asyncio.Task[None]) -> None:
        """Report the worker as lost when the task of its connection failed."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            why = redact(f"{type(error).__name__}: {error}", self.hidden)
            self._end(protocol.lost_report(self.report, f"cannot be followed: {why}"))

    def _fence_off(self) -> None:
        self.is_fenced_off = True
        self._end(self.report)

    def _end(self, report: WorkerReport) -> None:
        self.over, self.report = True, report
        self.changed()


def start_keeping(link: WorkerConnection) -> asyncio.Task[None]:
    """Keep a link in the background."""
    task = asyncio.create_task(link.keep())
    task.add_done_callback(link.on_task_done)
    return task


async def cancel_tasks(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
