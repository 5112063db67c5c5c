"""A job in one archive, for whoever is asked about it: what was wanted, what happened, and where.

The same job makes the same bytes: names are sorted, times are that of the submission.

    ID/record.json                 as it lies in the bucket: what was asked for, every attempt
    ID/events.txt                  its story, a line an event
    ID/a1/attempt.json             the attempt with the last report of every worker
    ID/a1/w0/last_lines.txt        the end of the worker's log
    ID/a1/w0/status.json           its agent's final status, when there is one
    ID/a1/w0/stacks.txt            the stacks of a run that hung, when there are any
    ID/a1/w0/ray_logs.tar.gz       the ends of Ray's own logs, of a job with a Ray cluster
    ID/unread.txt                  what could not be read, when there is anything
"""

import gzip
import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tpuctl.errors import ConflictError, LocalIOError, NotFoundError, TpuctlError
from tpuctl.jobs.logs import segments
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.workers import protocol
from tpuctl.models.job import Attempt, JobRecord
from tpuctl.store import Entry, Store

LAST_BYTES = 256 * 1024
"""How much of each worker's log is packed: its end."""


@dataclass(slots=True)
class Bundle:
    """Files by their names in the archive, and what could not be read."""

    record: JobRecord
    files: dict[str, bytes] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @contextmanager
    def note_unread(self, key: str) -> Iterator[None]:
        """Go on after an error of the bucket, which is noted."""
        try:
            yield
        except TpuctlError as error:
            self.unread.append(f"{key}: {error}")


def collect(store: Store, job_id: str) -> Bundle:
    """Read everything that the bucket has of a job. Raises NotFoundError."""
    record = records.load(store, job_id).record
    found = Bundle(record)
    found.files["record.json"] = records.encode(record)
    events = [_format_line(event.time_s, event.text) for event in record.events]
    found.files["events.txt"] = _lines(events)
    logs: dict[segments.LogSource, list[Entry]] = {}
    with found.note_unread("logs"):
        logs = segments.sources(store, job_id)
    for attempt in record.attempts:
        told = json.dumps(asdict(attempt), indent=1).encode()
        found.files[f"a{attempt.number}/attempt.json"] = told
        for worker_id in _workers(attempt, logs):
            entries = logs.get((attempt.number, worker_id), [])
            _collect_worker(store, found, attempt, worker_id, entries)
    if found.unread:
        found.files["unread.txt"] = _lines(found.unread)
    return found


def write(bundle: Bundle, path: Path) -> None:
    """Make the archive. Raises ConflictError when there is a file already, LocalIOError."""
    try:
        with (
            path.open("xb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            _fill(tar, bundle)
    except FileExistsError:
        raise ConflictError(f"{path} exists", hint="choose another name: -O FILE") from None
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise LocalIOError(f"cannot write {path}: {error.strerror}") from error


def _fill(tar: tarfile.TarFile, bundle: Bundle) -> None:
    for name, data in sorted(bundle.files.items()):
        member = tarfile.TarInfo(f"{bundle.record.job_id}/{name}")
        member.size, member.mtime = len(data), int(bundle.record.submitted_s)
        tar.addfile(member, io.BytesIO(data))


def _workers(attempt: Attempt, logs: dict[segments.LogSource, list[Entry]]) -> list[int]:
    known = range(max(attempt.worker_count, len(attempt.workers)))
    logged = {worker for number, worker in logs if number == attempt.number}
    return sorted({*known, *logged})


def _collect_worker(
    store: Store, found: Bundle, attempt: Attempt, worker_id: int, entries: list[Entry]
) -> None:
    place = f"a{attempt.number}/w{worker_id}"
    ids = found.record.job_id, attempt.number, worker_id
    for name, key in (
        ("status.json", protocol.status_key(*ids)),
        ("stacks.txt", protocol.stacks_key(*ids)),
        ("ray_logs.tar.gz", protocol.ray_logs_key(*ids)),
    ):
        with found.note_unread(key), suppress(NotFoundError):
            found.files[f"{place}/{name}"] = store.get_range(key)
    lines = _last_lines(store, found, entries)
    if lines is None:  # never uploaded: what the supervisor was told
        report = next((each for each in attempt.workers if each.worker_id == worker_id), None)
        lines = _lines(report.last_lines) if report and report.last_lines else None
    if lines is not None:
        found.files[f"{place}/last_lines.txt"] = lines


def _last_lines(store: Store, found: Bundle, entries: list[Entry]) -> bytes | None:
    if not entries:
        return None
    lines: list[str] = []
    with found.note_unread(entries[-1].key):
        for line in segments.tail_lines(store, entries, LAST_BYTES):
            lines.append(_format_line(line.time_s, line.text))
    return _lines(lines)


def _format_line(time_s: float, text: str) -> str:
    moment = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds")
    return f"{moment.removesuffix('+00:00')}Z {text}"


def _lines(texts: Iterable[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode("utf-8", "replace")
