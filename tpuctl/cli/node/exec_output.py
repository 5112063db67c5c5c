"""Where what the workers print goes: labelled lines, groups of equal texts, files, memory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

from tpuctl.cli.shell.byte_streams import worker_output_writer
from tpuctl.cli.shell.output import worker_label
from tpuctl.errors import LocalIOError
from tpuctl.models.worker_numbers import format_ranges
from tpuctl.operations.workers.execute import Write


class MemorySink:
    """Keeps all output in memory for the results."""

    def __init__(self) -> None:
        self._buffers: dict[int, tuple[bytearray, bytearray]] = {}

    def writers(self, worker_id: int) -> tuple[Write, Write]:
        """What appends to the worker's buffers."""
        out, err = self._buffers[worker_id] = bytearray(), bytearray()
        return out.extend, err.extend

    def ended(self, worker_id: int) -> tuple[bytes, bytes]:
        """All that the worker printed."""
        out, err = self._buffers[worker_id]
        return bytes(out), bytes(err)

    def close(self) -> None:
        """Do nothing: the results hold the output."""


class GroupedSink(MemorySink):
    """Prints equal outputs once, under the numbers of their workers."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        super().__init__()
        self._streams = (out, err)

    def close(self) -> None:
        """Print what came, the text of the first worker first."""
        for stream, index in zip(self._streams, (0, 1), strict=True):
            texts = {number: bytes(both[index]) for number, both in self._buffers.items()}
            write = worker_output_writer(stream)
            for workers, text in group_by_text(texts):
                end = b"" if text.endswith(b"\n") else b"\n"
                write(f"--- {workers} ---\n".encode() + text + end)


class LabelledSink:
    """Prints whole lines with the worker's number; for a single worker, bytes as they come."""

    def __init__(self, streams: Sequence[TextIO], are_coloured: Sequence[bool] | None) -> None:
        """`are_coloured` says which streams show labels in colour; None: without labels."""
        self._streams = streams
        self._are_coloured = are_coloured
        self._open: dict[int, tuple[LineBuffer, LineBuffer]] = {}

    def writers(self, worker_id: int) -> tuple[Write, Write]:
        """What writes to this command's own streams."""
        if self._are_coloured is None:
            return worker_output_writer(self._streams[0]), worker_output_writer(self._streams[1])
        out, err = (
            LineBuffer(
                f"{worker_label(str(worker_id), worker_id, is_coloured=is_coloured)} ".encode(),
                worker_output_writer(stream),
            )
            for stream, is_coloured in zip(self._streams, self._are_coloured, strict=True)
        )
        self._open[worker_id] = (out, err)
        return out.write, err.write

    def ended(self, worker_id: int) -> tuple[bytes, bytes]:
        """Print the worker's last lines, which have no newline."""
        for line in self._open.pop(worker_id, ()):
            line.flush()
        return b"", b""

    def close(self) -> None:
        """Print the last lines of workers that were lost."""
        for worker_id in list(self._open):
            self.ended(worker_id)


class LineBuffer:
    """Holds bytes back until their line is whole."""

    def __init__(self, label: bytes, emit: Write) -> None:
        self._label = label
        self._emit = emit
        self._pending = bytearray()

    def write(self, data: bytes) -> None:
        """Emit the lines that are whole now."""
        *lines, rest = (bytes(self._pending) + data).split(b"\n")
        self._pending[:] = rest
        if lines:
            self._emit(b"".join(self._label + line + b"\n" for line in lines))

    def flush(self) -> None:
        """Emit what is left, as a line."""
        if self._pending:
            self._emit(self._label + bytes(self._pending) + b"\n")
            self._pending.clear()


class FileSink:
    """Writes both streams of each worker to `DIR/<worker>.log`, in the order they come."""

    def __init__(self, directory: Path) -> None:
        """Make the directory; raises LocalIOError."""
        self._directory = directory
        self._open: dict[int, BinaryIO] = {}
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalIOError(f"cannot make {directory}: {error.strerror}") from error

    def writers(self, worker_id: int) -> tuple[Write, Write]:
        """What writes to the worker's file; raises LocalIOError."""
        path = self._directory / f"{worker_id}.log"
        try:
            path.unlink(missing_ok=True)  # and a link there leads nowhere
            file = self._open[worker_id] = path.open("xb", buffering=0)
        except OSError as error:
            raise LocalIOError(f"cannot write {path}: {error.strerror}") from error

        def write(data: bytes) -> None:
            try:
                file.write(data)
            except OSError as error:
                raise LocalIOError(f"cannot write {path}: {error.strerror}") from error

        return write, write

    def ended(self, worker_id: int) -> tuple[bytes, bytes]:
        """Close the worker's file."""
        self._open.pop(worker_id).close()
        return b"", b""

    def close(self) -> None:
        """Close the files of workers that were lost."""
        for worker_id in list(self._open):
            self.ended(worker_id)


def group_by_text(texts: Mapping[int, bytes]) -> list[tuple[str, bytes]]:
    """Pairs of `workers 0-2,5` and the text they share; silent workers are left out."""
    sharing: dict[bytes, list[int]] = {}
    for number, text in sorted(texts.items()):
        if text:
            sharing.setdefault(text, []).append(number)
    return [(workers_text(numbers), text) for text, numbers in sharing.items()]


def workers_text(worker_ids: list[int]) -> str:
    """`worker 3`, `workers 0-2,5`."""
    return f"{'worker' if len(worker_ids) == 1 else 'workers'} {format_ranges(worker_ids)}"
