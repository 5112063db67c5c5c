"""Which bytes of an object a Range header asks for."""

import re
from dataclasses import dataclass

from localsim.cloud.objects.storage_model import StorageError

_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """The bytes from `start` up to, not including, `end`."""

    start: int
    end: int


class UnsatisfiableRangeError(StorageError):
    """The range begins behind the object's last byte."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(416, "requestedRangeNotSatisfiable", "Request range not satisfiable")
        self.headers = {"Content-Range": f"bytes */{size_bytes}"}


def requested_span(header: str | None, size_bytes: int) -> ByteSpan | None:
    """The one range a header asks for; None, the whole object, for any header that is not one."""
    match = _RANGE.fullmatch(header or "")
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size_bytes - int(last)), size_bytes
    else:
        start, end = int(first), min(int(last or size_bytes), size_bytes - 1) + 1
        if last and int(last) < start:
            return None
    if start >= size_bytes:
        raise UnsatisfiableRangeError(size_bytes)
    return ByteSpan(start, end)
