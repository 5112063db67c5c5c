"""What this machine knows of jobs that are not settled: one small file per context.

The one line that every command says when a job has no supervisor starts here: without the file
there is nothing to look for, and no command waits for the bucket.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tpuctl.config import write_private
from tpuctl.errors import LocalIOError
from tpuctl.jobs.local.supervisor_lock import state_file
from tpuctl.jobs.record import decoding
from tpuctl.jobs.record.decoding import MalformedError

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class OpenJobs:
    """Jobs that were not settled when last heard of, and those without a supervisor then."""

    jobs: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    """Whose the silent ones are."""
    looked_s: float = 0.0
    """When the bucket was last asked who looks after them; by this machine's clock."""


def load(home: Path, context: str) -> OpenJobs:
    """Read the file of a context; an empty OpenJobs when it is missing or damaged."""
    try:
        document = decoding.parse_document(state_file(home, context, "jobs").read_bytes())
        return decoding.decode_dataclass(OpenJobs, document)
    except (OSError, MalformedError):
        return OpenJobs()


def add_jobs(home: Path, context: str, *job_ids: str) -> None:
    """Add jobs that are not settled."""
    _update(home, context, lambda old: replace(old, jobs=tuple(sorted({*old.jobs, *job_ids}))))


def remove_job(home: Path, context: str, job_id: str) -> None:
    """Remove a job that is settled."""
    if job_id in load(home, context).jobs:
        _update(home, context, lambda old: _without(old, job_id))


def replace_all(home: Path, context: str, told: OpenJobs) -> None:
    """Replace the file by what the bucket says now."""
    if told.jobs or load(home, context).jobs:
        _update(home, context, lambda _old: told)


def remove_file(home: Path, context: str) -> None:
    """Remove the file of a context that is deleted."""
    state_file(home, context, "jobs").unlink(missing_ok=True)


def _update(home: Path, context: str, change: Callable[[OpenJobs], OpenJobs]) -> None:
    """A disk that is full takes away a warning, and nothing else."""
    with suppress(LocalIOError, OSError):
        new = change(load(home, context))
        if new.jobs:
            data = json.dumps({"schema": SCHEMA, **asdict(new)}).encode()
            write_private(state_file(home, context, "jobs"), data)
        else:
            remove_file(home, context)


def _without(old: OpenJobs, job_id: str) -> OpenJobs:
    def others(ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each for each in ids if each != job_id)

    return replace(old, jobs=others(old.jobs), silent=others(old.silent))
