"""Units of work on a few threads, told as events; who stops listening stops the work."""

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from queue import SimpleQueue

from tpuctl.errors import LocalIOError, TpuctlError
from tpuctl.models.delivery import Meter
from tpuctl.models.transfer import (
    PlannedDeletion,
    Transfer,
    TransferEvent,
    TransferFinished,
    TransferNotice,
    TransferProgress,
)

AT_ONCE = 8
_GOODBYE_S = 2.0


class WorkStopped(Exception):
    """Raised in a thread when nobody waits for its work any more."""


class TransferReport:
    """Passes events from the threads of a transfer to its caller."""

    def __init__(self) -> None:
        self.events: SimpleQueue[TransferEvent | BaseException | None] = SimpleQueue()
        self.stopped = threading.Event()

    def progress(self, size_bytes: int) -> None:
        """Report so many more bytes. Raises WorkStopped when the work is to end."""
        if self.stopped.is_set():
            raise WorkStopped
        self.events.put(TransferProgress(size_bytes))

    def finished(
        self,
        subject: Transfer | PlannedDeletion,
        error: TpuctlError | None = None,
        *,
        was_there: bool = False,
    ) -> None:
        """Report that a transfer or a deletion is over."""
        self.events.put(TransferFinished(subject, error, was_there))

    @contextlib.contextmanager
    def about(self, subject: Transfer | PlannedDeletion) -> Iterator[None]:
        """Report an error of the block as the end of this one transfer or deletion."""
        try:
            yield
        except (TpuctlError, OSError) as error:
            self.finished(subject, to_tpuctl_error(error))


Unit = Callable[[TransferReport], None]


def carry_out(
    units: Iterable[Unit], *, at_once: int = AT_ONCE
) -> Generator[TransferEvent, None, None]:
    """Run every unit, in order, `at_once` at a time, and yield their events.

    Closing the iterator stops what runs within a block of bytes; what does not heed that within two
    seconds (a connection that is silent) is left behind, and ends with the process.
    """
    report = TransferReport()
    source = iter(units)
    turn = threading.Lock()
    threads = [
        threading.Thread(target=_work, args=(source, turn, report), daemon=True)
        for _ in range(at_once)
    ]
    for thread in threads:
        thread.start()
    try:
        working = len(threads)
        while working:
            event = report.events.get()
            if isinstance(event, BaseException):
                raise event
            if event is None:
                working -= 1
            else:
                yield event
    finally:
        report.stopped.set()
        deadline_s = time.monotonic() + _GOODBYE_S
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))


def finished_transfers(
    events: Iterable[TransferEvent], meter: Meter, warn: Callable[[str], None]
) -> Iterator[TransferFinished]:
    """Report progress to a meter and notices to `warn`; yield each transfer that is over."""
    for event in events:
        match event:
            case TransferProgress(size_bytes):
                meter.advance(size_bytes)
            case TransferNotice(text):
                warn(text)
            case TransferFinished():
                meter.finished()
                yield event


def _work(source: Iterator[Unit], turn: threading.Lock, report: TransferReport) -> None:
    try:
        while not report.stopped.is_set():
            with turn:
                unit = next(source, None)
            if unit is None:
                break
            unit(report)
    except WorkStopped:
        pass
    except BaseException as error:  # noqa: BLE001 (raised again by who listens)
        report.events.put(error)
    finally:
        report.events.put(None)


def to_tpuctl_error(error: TpuctlError | OSError) -> TpuctlError:
    """An error of this machine as LocalIOError; a TpuctlError stays as it is."""
    if isinstance(error, TpuctlError):
        return error
    return LocalIOError(f"{error.filename or 'this machine'}: {error.strerror or error}")
