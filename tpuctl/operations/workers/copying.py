"""Files and directories to workers and back, as one stream a worker over its SSH connection.

One stream costs no round trip per file, as SFTP does, and unlike tar it keeps holes and gives no
file its name before it is whole: docs/node.md.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from tpuctl.agent.copy import packing, unpacking
from tpuctl.errors import LocalIOError, NotFoundError, TransientError, UsageError
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote.shipping import JsonLineReader, ShippingShell, agent_command
from tpuctl.operations.stage.workers.ssh_push import run_on_reach
from tpuctl.operations.stage.workers.staging import WorkerReach
from tpuctl.operations.workers.cp_arguments import CopyArguments

HERE_S = 5.0
STALL_S = 90.0
"""A worker that moves nothing for so long hangs."""
_PATTERN = ("*", "?", "[")


class CopyMeter(Protocol):
    """Is told how far a copy is."""

    def expect(self, objects: int, size_bytes: int) -> None:
        """So much more is to come."""

    def advance(self, size_bytes: int) -> None:
        """So many more bytes are there."""

    def finished(self) -> None:
        """One file more is done with."""


class CopyState(StrEnum):
    """How it ended on one worker."""

    DONE = "DONE"
    FAILED = "FAILED"
    LOST = "LOST"
    """The worker could not be reached, or went away."""


@dataclass(frozen=True, slots=True)
class CopyFailure:
    """What was not copied; `number` is the errno, 0 when there is none."""

    path: str
    why: str
    number: int


@dataclass(slots=True)
class CopyOutcome:
    """What became of a copy on one worker."""

    worker_id: int
    state: str = CopyState.DONE
    files: int = 0
    size_bytes: int = 0
    failures: list[CopyFailure] = field(default_factory=list)
    error: str | None = None
    """What ended it, or the first failure."""


@dataclass(frozen=True, slots=True)
class CopyTarget:
    """Where a copy goes; `into`: a directory, made when it is not there."""

    path: str
    into: bool

    def orders(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """What whoever writes it needs to know; `names`: only these, or what matches them."""
        return {"target": self.path, "into": self.into, "names": list(names)}


def target_of(copy: CopyArguments) -> CopyTarget:
    """Several sources, patterns, contents and a slash at the end need a directory."""
    first, *others = copy.sources
    is_pattern = not copy.is_upload and any(mark in first for mark in _PATTERN)
    is_one = packing.name_of(first) and not others and not is_pattern
    return CopyTarget(
        copy.target, into=not is_one or copy.target == "" or copy.target.endswith("/")
    )


def list_entries(sources: Sequence[str], *, recursive: bool) -> list[packing.PackEntry]:
    """What is sent of paths of this machine. Raises NotFoundError, UsageError, LocalIOError."""
    found = []
    for source in sources:
        entries = list(packing.entries(source, recursive=recursive))
        if len(entries) == 1 and entries[0].kind == packing.FAILED:
            raise _refusal(source, entries[0].errno)
        found += entries
    return found


def push(
    reach: WorkerReach, entries: Sequence[packing.PackEntry], target: CopyTarget, gauge: CopyMeter
) -> list[CopyOutcome]:
    """Send the entries to every worker; one that fails stops no other. Raises LocalIOError."""
    files = [one for one in entries if one.kind in (packing.FILE, packing.LINK)]
    size_bytes = sum(one.size_bytes for one in files)
    gauge.expect(len(files) * len(reach.workers), size_bytes * len(reach.workers))
    argv = [
        *agent_command("copy.partial_file", "copy.unpacking", "copy.receiving"),
        json.dumps(target.orders()),
    ]
    found: dict[int, CopyOutcome] = {}

    async def work(shell: ShippingShell) -> CommandResult:
        heard = WriterEvents(shell.worker_id)
        lines = JsonLineReader(heard.take)
        async with StallTimeout(shell.worker_id) as progress:
            pieces = packing.chunks(packing.frames(entries, heard.is_refused))
            stream = _stream(pieces, gauge, progress)
            status = await shell.converse(argv, stdin=stream, out=lines.out, err=lines.err)
        found[shell.worker_id] = heard.outcome(status, lines.complaint)
        return CommandResult(shell.worker_id, status)

    return _collect_outcomes(reach, run_on_reach(reach, work), found)


def pull(
    reach: WorkerReach,
    sources: Sequence[str],
    targets: Mapping[int, CopyTarget],
    gauge: CopyMeter,
    *,
    recursive: bool,
) -> list[CopyOutcome]:
    """Fetch the sources from every worker; one that fails stops no other. Raises LocalIOError."""
    orders = json.dumps({"sources": list(sources), "recursive": recursive})
    argv = [*agent_command("copy.packing"), orders]
    names = [packing.name_of(source) for source in sources]
    asked = [] if "" in names else names
    found: dict[int, CopyOutcome] = {}

    async def work(shell: ShippingShell) -> CommandResult:
        heard = WriterEvents(shell.worker_id)
        complaints = JsonLineReader(lambda _event: None)
        with _receiver(targets[shell.worker_id], asked, heard) as taking:
            sink = _Sink(taking, gauge)
            async with StallTimeout(shell.worker_id) as progress:

                def out(data: bytes) -> None:
                    progress.moved()
                    sink.feed(data)

                status = await shell.execute(argv, out=out, err=complaints.err)
        found[shell.worker_id] = heard.outcome(status, complaints.complaint)
        return CommandResult(shell.worker_id, status)

    return _collect_outcomes(reach, run_on_reach(reach, work), found)


class WriterEvents:
    """What whoever writes the files says."""

    def __init__(self, worker_id: int) -> None:
        self._outcome = CopyOutcome(worker_id)
        self._is_over = False
        self._refused: set[str] = set()

    def take(self, event: Mapping[str, Any]) -> None:
        """A failure, or the end."""
        if "failed" in event:
            one = CopyFailure(str(event["failed"]), str(event["why"]), int(event["errno"]))
            self._outcome.failures.append(one)
            self._refused.add(one.path)
        if "copied" in event:
            self._outcome.files = int(event["copied"])
            self._outcome.size_bytes = int(event["size_bytes"])
            self._is_over = True

    def is_refused(self, path: str) -> bool:
        """It is known already that this one cannot be written."""
        return path in self._refused

    def outcome(self, status: int, complaint: str) -> CopyOutcome:
        """How it ended."""
        found = self._outcome
        if found.failures:
            found.error = f"{found.failures[0].path}: {found.failures[0].why}"
        elif not self._is_over:
            found.error = f"the copy ended early, with exit status {status}: {complaint}"
        found.state = CopyState.FAILED if found.error else CopyState.DONE
        return found


class StallTimeout:
    """A time limit that begins anew whenever something moves; TransientError when it is over."""

    def __init__(self, worker_id: int) -> None:
        self._worker_id = worker_id
        self._limit = asyncio.timeout(STALL_S)

    def moved(self) -> None:
        """Something did."""
        self._limit.reschedule(asyncio.get_running_loop().time() + STALL_S)

    async def __aenter__(self) -> StallTimeout:
        await self._limit.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._limit.__aexit__(*error)
        except TimeoutError:
            raise TransientError(
                f"worker {self._worker_id} hangs: nothing moved for {STALL_S:.0f} s"
            ) from None


class _Sink:
    """What comes of one worker, and how far that is."""

    def __init__(self, taking: unpacking.Unpacker, gauge: CopyMeter) -> None:
        self._taking = taking
        self._gauge = gauge
        self._is_expected = False

    def feed(self, data: bytes) -> None:
        """The next bytes. Raises LocalIOError, TransientError."""
        taking = self._taking
        before = taking.received_bytes, taking.files + taking.failed
        try:
            taking.feed(data)
            if taking.coming and not self._is_expected:
                self._is_expected = True
                files, size_bytes = int(taking.coming["files"]), int(taking.coming["size_bytes"])
                self._gauge.expect(files, size_bytes)
        except OSError as error:
            raise LocalIOError(f"cannot write: {unpacking.reason(error)}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise TransientError(f"the worker sent what makes no sense: {error}") from error
        self._gauge.advance(taking.received_bytes - before[0])
        for _ in range(taking.files + taking.failed - before[1]):
            self._gauge.finished()


@contextmanager
def _receiver(
    target: CopyTarget, names: Sequence[str], heard: WriterEvents
) -> Iterator[unpacking.Unpacker]:
    """Writes below a directory of this machine. Raises LocalIOError."""
    try:
        taking = unpacking.Unpacker(target.orders(names), lambda **event: heard.take(event))
    except OSError as error:
        why = unpacking.reason(error)
        raise LocalIOError(f"cannot write to {target.path}: {why}") from error
    try:
        yield taking
    finally:
        taking.close()


async def _stream(
    pieces: Iterator[packing.StreamPiece], gauge: CopyMeter, progress: StallTimeout
) -> AsyncIterator[bytes]:
    """The bytes for one worker; a thread reads them, and meanwhile the worker hears of us."""
    while True:
        reading = asyncio.create_task(asyncio.to_thread(next, pieces, None))
        while not (await asyncio.wait({reading}, timeout=HERE_S))[0]:
            progress.moved()
            yield packing.frame(packing.KEEPALIVE)
        piece = reading.result()
        if piece is None:
            return
        yield piece.data
        progress.moved()
        gauge.advance(piece.size_bytes)
        for _ in range(piece.files):
            gauge.finished()


def _collect_outcomes(
    reach: WorkerReach, done: Sequence[CommandResult], found: dict[int, CopyOutcome]
) -> list[CopyOutcome]:
    for each in done:
        if each.lost:
            lost, why = CopyState.LOST, each.lost_because
            found[each.worker_id] = CopyOutcome(each.worker_id, state=lost, error=why)
    return [found[worker.worker_id] for worker in reach.workers]


def _refusal(source: str, number: int) -> NotFoundError | UsageError | LocalIOError:
    if number == errno.ENOENT:
        return NotFoundError(f"there is no file or directory {source}", hint="check the path")
    if number == errno.EISDIR:
        return UsageError(f"{source} is a directory", hint="copy it with -r")
    why = packing.ERRNO_TEXTS.get(number) or os.strerror(number).lower()
    return LocalIOError(f"cannot read {source}: {why}")
