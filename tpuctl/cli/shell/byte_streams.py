"""Standard input and output as bytes, whatever stands for them."""

import codecs
import io
from collections.abc import Callable
from typing import BinaryIO, TextIO, cast

from tpuctl.errors import LocalIOError


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


def lenient_byte_writer(stream: TextIO) -> Callable[[bytes], None]:
    """What writes output of workers to a stream.

    It raises LocalIOError, and BrokenPipeError when the reader of a pipe is gone.
    """
    write = byte_writer(stream)

    def emit(data: bytes) -> None:
        try:
            write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise LocalIOError(f"cannot print what the workers say: {why}") from error

    return emit


def byte_reader(stream: TextIO) -> BinaryIO:
    """The bytes of a stream; the text of a text stream is encoded in UTF-8."""
    buffer = getattr(stream, "buffer", None)
    return cast("BinaryIO", buffer) if buffer is not None else io.BytesIO(stream.read().encode())
