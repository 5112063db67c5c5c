"""The stream of files between this machine and a worker, over its SSH connection.

One stream costs no round trip per file, as SFTP does; it keeps holes, verifies every file, gives
none its name before it is whole, and can go on where an earlier one ended: docs/node.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tpuctl.agent.copy import packing, unpacking
from tpuctl.errors import LocalIOError, TransientError
from tpuctl.models.delivery import Delivery, DeliveryFailure, DeliveryState, Meter
from tpuctl.operations.remote.shipping import JsonLineReader

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell

KEEPALIVE_S = 5.0
STALL_S = 90.0
"""A worker that moves nothing for so long hangs."""


async def send_entries(
    shell: Shell,
    argv: list[str],
    entries: Sequence[packing.PackEntry],
    meter: Meter,
    *,
    is_resumed: bool = False,
) -> Delivery:
    """Send entries to the receiver that argv starts on a worker. Raises TransientError.

    When it is resumed, the receiver first says which of them it needs, and from where on.
    """
    events = ReceiverEvents(shell.worker_id)
    lines = JsonLineReader(events.take)
    async with StallTimeout(shell.worker_id, is_on=not is_resumed) as progress:

        async def stream() -> AsyncIterator[bytes]:
            chosen = entries
            if is_resumed:
                async for idle in _keepalives(events.needed, progress):
                    yield idle
                needed = events.needed.result()
                chosen = [entries[index]._replace(offset=offset) for index, offset in needed]
                meter.expect(*packing.totals(chosen))
            pieces = packing.chunks(packing.frames(chosen, events.is_refused))
            async for data in _bytes_of(pieces, meter, progress):
                yield data

        status = await shell.converse(argv, stdin=stream(), out=lines.out, err=lines.err)
    return events.delivery(status, lines.complaint, len(entries) if is_resumed else 0)


async def receive_files(
    shell: Shell,
    argv: list[str],
    unpacker: unpacking.Unpacker,
    events: ReceiverEvents,
    meter: Meter,
) -> Delivery:
    """Write what the sender sends that argv starts. Raises LocalIOError, TransientError."""
    complaints = JsonLineReader(lambda _event: None)
    async with StallTimeout(shell.worker_id, is_on=unpacker.files_asked is None) as progress:

        def out(data: bytes) -> None:
            progress.moved()
            _feed(unpacker, data, meter)

        status = await shell.execute(argv, out=out, err=complaints.err)
    asked = len(unpacker.files_asked or ())
    return events.delivery(status, complaints.complaint, asked)


@contextmanager
def local_receiver(
    orders: Mapping[str, Any], events: ReceiverEvents
) -> Iterator[unpacking.Unpacker]:
    """The receiving end on this machine. Raises LocalIOError."""
    try:
        unpacker = unpacking.Unpacker(orders, lambda **event: events.take(event))
    except OSError as error:
        why = unpacking.reason(error)
        raise LocalIOError(f"cannot write to {orders['target']}: {why}") from error
    try:
        yield unpacker
    finally:
        unpacker.close()


class ReceiverEvents:
    """Collects the events of the receiving end; must be made while an event loop runs."""

    def __init__(self, worker_id: int) -> None:
        self.needed: asyncio.Future[list[tuple[int, int]]] = asyncio.Future()
        """(index, offset) of each file that is not there yet."""
        self._worker_id = worker_id
        self._failures: list[DeliveryFailure] = []
        self._refused: set[str] = set()
        self._refused_first = 0
        self._end: Mapping[str, Any] | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        """Note a failure, what is needed, or the end."""
        if "failed" in event:
            failure = DeliveryFailure(str(event["failed"]), str(event["why"]), int(event["errno"]))
            self._failures.append(failure)
            self._refused.add(failure.path)
        if "need" in event:
            self._refused_first = len(self._failures)
            self.needed.set_result([(int(index), int(offset)) for index, offset in event["need"]])
        if "copied" in event:
            self._end = event

    def is_refused(self, path: str) -> bool:
        """Whether it is known already that a file cannot be written."""
        return path in self._refused

    def delivery(self, status: int, complaint: str, asked: int) -> Delivery:
        """The result, given the exit status of the worker's end; `asked` files could be skipped."""
        end = self._end or {}
        error = None
        if self._failures:
            error = f"{self._failures[0].path}: {self._failures[0].why}"
        elif self._end is None:
            error = f"the copy ended early, with exit status {status}: {complaint}"
        needed = len(self.needed.result()) if self.needed.done() else asked
        return Delivery(
            self._worker_id,
            state=DeliveryState.FAILED if error else DeliveryState.DONE,
            objects_copied=int(end.get("copied", 0)),
            bytes_copied=int(end.get("size_bytes", 0)),
            objects_skipped=max(asked - needed - self._refused_first, 0),
            failures=tuple(self._failures),
            error=error,
        )


class StallTimeout:
    """A time limit that begins again whenever something moves; TransientError when it is over.

    Off for files that are resumed: the receiver hashes what is there, and syncs what is whole, for
    as long as that takes. A connection that is lost is noticed by SSH itself.
    """

    def __init__(self, worker_id: int, *, is_on: bool = True) -> None:
        self._worker_id = worker_id
        self._is_on = is_on
        self._limit = asyncio.timeout(STALL_S if is_on else None)

    def moved(self) -> None:
        """Start the time limit again."""
        if self._is_on:
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


def _feed(unpacker: unpacking.Unpacker, data: bytes, meter: Meter) -> None:
    """Write and count the next bytes of a worker. Raises LocalIOError, TransientError."""
    received_bytes, over = unpacker.received_bytes, unpacker.files + unpacker.failed
    was_announced = bool(unpacker.coming)
    try:
        unpacker.feed(data)
        if unpacker.coming and not was_announced:
            meter.expect(int(unpacker.coming["files"]), int(unpacker.coming["size_bytes"]))
    except OSError as error:
        raise LocalIOError(f"cannot write: {unpacking.reason(error)}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise TransientError(f"the worker sent what is not valid: {error}") from error
    meter.advance(unpacker.received_bytes - received_bytes)
    for _ in range(unpacker.files + unpacker.failed - over):
        meter.finished()


async def _bytes_of(
    pieces: Iterator[packing.StreamPiece], meter: Meter, progress: StallTimeout
) -> AsyncIterator[bytes]:
    """The bytes for one worker, which a thread reads."""
    while True:
        reading = asyncio.create_task(asyncio.to_thread(next, pieces, None))
        async for idle in _keepalives(reading, progress):
            yield idle
        piece = reading.result()
        if piece is None:
            return
        yield piece.data
        progress.moved()
        meter.advance(piece.size_bytes)
        for _ in range(piece.files):
            meter.finished()


async def _keepalives(awaited: asyncio.Future[Any], progress: StallTimeout) -> AsyncIterator[bytes]:
    """A frame for the worker now and then, until what is awaited is done."""
    while not (await asyncio.wait({awaited}, timeout=KEEPALIVE_S))[0]:
        progress.moved()
        yield packing.frame(packing.KEEPALIVE)
