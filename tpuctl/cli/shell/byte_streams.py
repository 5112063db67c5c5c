"""Standard input and output as bytes, and what of them a terminal may see."""

import codecs
import io
import re
from collections.abc import Callable
from typing import BinaryIO, TextIO, cast

from tpuctl.errors import LocalIOError

_CONTROL = re.compile(r"\x1b(?!\[[0-9;]{0,32}m)|[\0-\x08\n-\x1a\x1c-\x1f\x7f-\x9f]")
"""Whatever moves the cursor, clears, sets a title or the clipboard: all but tabs and colours."""
_CONTROL_OF_A_STREAM = re.compile(
    r"\x1b(?!\[[0-9;]{0,32}m)|[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)
"""As above; the ends of lines stay, and carriage returns, which progress bars are made of."""
_BEGUN = re.compile(r"\x1b(?:\[[0-9;]{0,32})?\Z")
"""What the next piece of a stream may make a colour of."""


def byte_writer(stream: TextIO) -> Callable[[bytes], None]:
    """What writes bytes to a stream: unchanged to a file or pipe, decoded to a text stream."""
    buffer = getattr(stream, "buffer", None)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def emit(data: bytes) -> None:
        if buffer is None:
            stream.write(decoder.decode(data))
        else:
            buffer.write(data)
            buffer.flush()

    return emit


def worker_output_writer(stream: TextIO, *, is_raw: bool = False) -> Callable[[bytes], None]:
    """What writes output of workers to a stream: without control sequences to a terminal.

    `is_raw` is for a person's own session, whose programs draw on the terminal. It raises
    LocalIOError, and BrokenPipeError when the reader of a pipe is gone.
    """
    write = byte_writer(stream)
    if stream.isatty() and not is_raw:
        write = _without_control(write)

    def emit(data: bytes) -> None:
        try:
            write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise LocalIOError(f"cannot print the output of the workers: {why}") from error

    return emit


def printable_with_colours(text: str) -> str:
    """A program's line without control characters but those of colours."""
    return text if text.isprintable() else _CONTROL.sub("?", text)


def _without_control(write: Callable[[bytes], None]) -> Callable[[bytes], None]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    held = ""

    def emit(data: bytes) -> None:
        nonlocal held
        text = held + decoder.decode(data)
        held = begun[0] if (begun := _BEGUN.search(text)) else ""
        text = text[: len(text) - len(held)]
        write(_CONTROL_OF_A_STREAM.sub("?", text).encode())

    return emit


class CountingReader:
    """A stream of bytes that tells how many are read."""

    def __init__(self, source: BinaryIO, advance: Callable[[int], None]) -> None:
        self._source = source
        self._advance = advance

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes, fewer at the end."""
        data = self._source.read(size)
        self._advance(len(data))
        return data


def byte_reader(stream: TextIO) -> BinaryIO:
    """The bytes of a stream; the text of a text stream is encoded in UTF-8."""
    buffer = getattr(stream, "buffer", None)
    return cast("BinaryIO", buffer) if buffer is not None else io.BytesIO(stream.read().encode())
