"""Where rehearsals keep their runs: a directory each below TPUCTL_HOME, locked while it works.

TPUCTL_HOME/rehearsals/JOB-ID/lock              held by `tpuctl rehearse` until it ends
                              RUN/              a TPUCTL_HOME: the cloud and the job of one run
                              RUN/evidence.json once the run has ended
                              RUN/verdict.json  when it is kept, for somebody to look into it
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.durable_directories import make_private
from tpuctl.errors import LocalIOError, LockedError, RefusedError
from tpuctl.file_lock import try_lock
from tpuctl.models.rehearsal.verdict import ReferenceVerdict, Verdict
from tpuctl.operations.local import local_cloud

FOLDER = "rehearsals"
EVIDENCE = "evidence.json"
VERDICT = "verdict.json"
LEAST_FREE_BYTES = 64 * 1024 * 1024
"""Less than the state of two small runs: their simulators would stand still."""


@contextmanager
def open_rehearsal(home: Path, job: str, unique: str) -> Iterator[Path]:
    """Make and hold the directory of a rehearsal; at its end only the runs that are kept stay.

    Raises LocalIOError.
    """
    path = home / FOLDER / f"{job}-{unique}"
    try:
        make_private(path)
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LocalIOError(
            f"cannot write {path}: {error.strerror}", hint="set TPUCTL_HOME to a writable directory"
        ) from error
    with os.fdopen(descriptor, "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            _require_space(path)
            yield path
        finally:
            for run in run_directories(path):
                # After Ctrl-C twice a run ends with this process; the next rehearsal deletes it.
                with suppress(LockedError):
                    if not is_kept(run):
                        delete_run(run)
            if not run_directories(path):
                shutil.rmtree(path, ignore_errors=True)


def _require_space(path: Path) -> None:
    free_bytes = shutil.disk_usage(path).free
    if free_bytes < LEAST_FREE_BYTES:
        raise LocalIOError(
            f"a rehearsal needs {LEAST_FREE_BYTES >> 20} MiB on the disk of {path.parent}, "
            f"where {free_bytes >> 20} MiB are free",
            hint="free some, or set TPUCTL_HOME to a directory on another disk",
        )


def run_directory(rehearsal: Path, run: str) -> Path:
    """The directory of a run, by the name of its moment."""
    return rehearsal / run.replace(":", "-").replace("/", "-")


def run_directories(rehearsal: Path) -> list[Path]:
    """Every run that a rehearsal has the state of."""
    return sorted(path for path in rehearsal.iterdir() if path.is_dir())


def keep_run(path: Path, verdict: Verdict | ReferenceVerdict) -> None:
    """Let the state of a run stay, with what was concluded. Raises LocalIOError."""
    make_private(path)
    write_document(path / VERDICT, asdict(verdict))


def is_kept(path: Path) -> bool:
    """Whether the state of a run stays after its rehearsal."""
    return (path / VERDICT).exists()


def delete_run(path: Path) -> None:
    """Delete the state of a run whose processes have ended. Raises LockedError when one has not."""
    # It is refused where the simulator was killed before it wrote its mark.
    with suppress(OSError, RefusedError):
        local_cloud.remove(path, DEFAULT_CONTEXT)
    shutil.rmtree(path, ignore_errors=True)


def end_abandoned_runs(home: Path) -> list[str]:
    """End and delete the runs that killed rehearsals left; returns their directories."""
    ended = []
    for rehearsal in sorted((home / FOLDER).glob("*/lock")):
        with rehearsal.open("r+") as lock:
            if not try_lock(lock, fcntl.LOCK_EX):
                continue
            for path in run_directories(rehearsal.parent):
                if not is_kept(path):
                    local_cloud.stop(path, DEFAULT_CONTEXT, delete_state=False)
                    delete_run(path)
                    ended.append(str(path))
            if not run_directories(rehearsal.parent):
                shutil.rmtree(rehearsal.parent, ignore_errors=True)
    return ended


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file of a run. Raises LocalIOError."""
    try:
        path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise LocalIOError(f"cannot write {path}: {error.strerror}") from error
