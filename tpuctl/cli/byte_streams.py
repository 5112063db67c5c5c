"""Standard input and output as bytes, whatever stands for them."""

import codecs
import io
from collections.abc import Callable
from typing import BinaryIO, TextIO, cast


def bytes_to(stream: TextIO) -> Callable[[bytes], None]:
    """Bytes reach a file or a pipe unchanged; a stream of text gets them decoded."""
    buffer = getattr(stream, "buffer", None)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def emit(data: bytes) -> None:
        if buffer is None:
            stream.write(decoder.decode(data))
        else:
            buffer.write(data)
            buffer.flush()

    return emit


def bytes_from(stream: TextIO) -> BinaryIO:
    """The bytes of a file or a pipe; of a stream of text, its text in UTF-8."""
    buffer = getattr(stream, "buffer", None)
    return cast("BinaryIO", buffer) if buffer is not None else io.BytesIO(stream.read().encode())
