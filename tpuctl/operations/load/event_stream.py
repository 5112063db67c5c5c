"""The events of a stream of server-sent events, as its bytes come."""

import re
from dataclasses import dataclass

MOST_BYTES = 1 << 20
"""The most bytes of an event; a stream that sends more without ending one is broken."""
DONE = b"[DONE]"
"""What engines with OpenAI's API send last."""
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINES = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event that has data."""

    kind: bytes
    """Empty where the server does not name one."""
    data: bytes

    @property
    def is_done(self) -> bool:
        """Whether it only says that the stream is complete."""
        return self.data == DONE


class EventSplitter:
    """Splits the bytes of a stream into its events (WHATWG HTML, section 9.2)."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that end in these bytes; comments are none. Raises ValueError."""
        *blocks, self._rest = _END.split(self._rest + chunk)
        if len(self._rest) > MOST_BYTES:
            raise ValueError(f"an event has more than {MOST_BYTES} bytes")
        return [event for block in blocks if (event := _event_of(block)) is not None]


def _event_of(block: bytes) -> StreamEvent | None:
    kind, data = b"", []
    for line in _LINES.split(block):
        name, _, value = line.partition(b":")
        if name == b"event":
            kind = value.removeprefix(b" ")
        elif name == b"data":
            data.append(value.removeprefix(b" "))
    return StreamEvent(kind, b"\n".join(data)) if data else None
