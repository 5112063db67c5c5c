"""The log of the requests of Cloud Storage, for whoever wants to know what programs did.

Every request is a line of a file when it begins and when it ends, so that a simulator that is
killed keeps the log and its numbers.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

MOST_ROWS = 10_000
"""So many come at once, unless fewer are asked for."""


@dataclass(slots=True)
class LoggedRequest:
    """One request; the field names are the keys of `GET /requests` on the control port."""

    number: int
    """From 1, in the order in which requests began."""
    method: str
    """As Google names it, such as `storage.objects.insert`."""
    bucket: str
    object: str
    """The name; of a list, its prefix; of a copy, what it makes."""
    began_s: float
    """Simulated seconds since 1970."""
    caller: str = ""
    """`NODE/WORKER` of the worker that sent it; empty: it came from outside of the workers."""
    ended_s: float | None = None
    """When its answer was complete; None: the connection ended, or it is under way."""
    status: int = 0
    """The HTTP status of the answer; 0: there was none."""
    body_bytes: int = 0
    """Bytes of the body that were received, or sent."""
    generation: int = 0
    """The generation of the object that it made; 0: it made none."""
    upload: int = 0
    """The number of the request with which its upload began; 0: it is not part of an upload."""


class RequestLog:
    """The requests since the state directory was made or reset."""

    def __init__(self, now: Callable[[], float], path: Path | None = None) -> None:
        """Continue the log in the file; without one it is kept in memory alone. Raises OSError."""
        self._now = now
        self._rows = {} if path is None else _read(path)
        self._next = max(self._rows, default=0) + 1
        self._file: IO[str] | None = None
        if path is not None:
            self._file = path.open("a", encoding="utf-8")
            self._file.write("\n" if self._file.tell() else "")  # behind a line that broke off

    def begin(self, method: str, bucket: str, name: str) -> LoggedRequest:
        """Add a request that begins now."""
        row = LoggedRequest(self._next, method, bucket, name, self._now())
        self._next += 1
        self._rows[row.number] = row
        self._write(row)
        return row

    def end(self, row: LoggedRequest, status: int) -> None:
        """Note how a request was answered; status 0: its connection ended before that."""
        row.status = status
        row.ended_s = self._now() if status else None
        self._write(row)

    def rows(self, after: int, limit: int) -> list[dict[str, Any]]:
        """The requests with numbers above `after`, at most `limit`."""
        chosen = range(after + 1, min(self._next, after + 1 + min(limit, MOST_ROWS)))
        return [asdict(self._rows[number]) for number in chosen if number in self._rows]

    def clear(self) -> None:
        """Forget every request, and begin to count from 1."""
        self._rows, self._next = {}, 1
        if self._file is not None:
            self._file.truncate(0)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, row: LoggedRequest) -> None:
        if self._file is not None:
            values = [getattr(row, name) for name in _FIELDS]
            self._file.write(f"{json.dumps(values)}\n")
            self._file.flush()


_FIELDS = tuple(field.name for field in fields(LoggedRequest))


def _read(path: Path) -> dict[int, LoggedRequest]:
    """The last state of each request in a file; a line that broke off is passed over."""
    rows: dict[int, LoggedRequest] = {}
    if not path.exists():
        return rows
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = LoggedRequest(**dict(zip(_FIELDS, json.loads(line), strict=True)))
        except (ValueError, TypeError):
            continue
        rows[row.number] = row
    return rows
