"""What is wrong with job files, found without a request and without a context."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tpuctl.errors import TpuctlError
from tpuctl.jobs.spec import job_file

BUCKET = "local-bucket"
"""Stands for the bucket of a context: no rule of a job file depends on its name."""


@dataclass(frozen=True)
class JobFileError:
    """A job file, and the first error that a submission of it reports."""

    file: str
    error: str
    hint: str | None


def find_errors(files: Iterable[Path], environ: Mapping[str, str]) -> list[JobFileError]:
    """The errors of job files, in the order of the files; an empty list when all are right."""
    errors = (_error_of(file, environ) for file in files)
    return [error for error in errors if error is not None]


def _error_of(file: Path, environ: Mapping[str, str]) -> JobFileError | None:
    try:
        job_file.load(file, bucket=BUCKET, environ=environ)
    except TpuctlError as error:
        return JobFileError(str(file), str(error), error.hint)
    return None
