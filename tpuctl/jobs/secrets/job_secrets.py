"""Secrets of a job: the record says where each value is; the value is in memory alone.

env:NAME      the submitter's environment       known to the supervisor of the submitting host,
file:PATH     a file of the submitter's         which hands it to the agents on their stdin
sm://...      Secret Manager                    read on the worker, by the slice's own account
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tpuctl.errors import PreconditionError, TpuctlError, UsageError, unreadable_error
from tpuctl.models.job import JobRecord

ENVIRONMENT = "env:"
FILE = "file:"
SECRET_MANAGER = "sm://"
SERVICE = "service/"
"""What the name begins with under which the values of a service's replicas are kept."""
MAX_BYTES = 64 * 1024
REDACTED = "***"
LEAST_REDACTED = 4
"""A shorter value is in every other line by chance."""


class UnsetVariableError(UsageError):
    """The environment has no value for a variable."""


def references_to(references: Mapping[str, str], *schemes: str) -> dict[str, str]:
    """The variables whose values are found by one of the schemes.

    A worker asks SECRET_MANAGER itself. What is in ENVIRONMENT or a FILE is known to the
    submitter's machine alone; only the former must be handed over, a file can be read again.
    """
    return {name: where for name, where in references.items() if where.startswith(schemes)}


def secret_files(references: Mapping[str, str]) -> list[Path]:
    """The files that hold a value: they never leave the submitter's machine."""
    return [
        Path(where.removeprefix(FILE)) for where in references.values() if where.startswith(FILE)
    ]


def resolve_values(references: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The values that this machine knows. Raises UsageError, NotFoundError, LocalIOError.

    No error shows a value. `environ` is the environment of the person who submits.
    """
    return {
        name: _value(name, where, environ)
        for name, where in references_to(references, ENVIRONMENT, FILE).items()
    }


def redact(text: str, values: Iterable[str]) -> str:
    """A text without the values, and without the lines of a value that has several."""
    pieces = {piece for value in values for piece in (value, *value.splitlines())}
    for piece in sorted(pieces, key=len, reverse=True):
        if len(piece) >= LEAST_REDACTED:
            text = text.replace(piece, REDACTED)
    return text


@dataclass(slots=True)
class SecretCache:
    """What a supervisor knows of its jobs' secrets: in this process's memory."""

    host_id: str
    """The id of the supervisor's own machine and context."""
    environ: Mapping[str, str] = field(repr=False)
    """The supervisor's own environment: asked for what nobody handed over."""
    received: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    """By job and variable, what submitters handed over; of replicas, by `service/NAME`."""

    def take(self, job_id: str, values: Mapping[str, str]) -> None:
        """Keep a job's values until it is settled."""
        self.received[job_id] = dict(values)

    def forget(self, job_id: str) -> None:
        """Drop the values of a settled job."""
        self.received.pop(job_id, None)

    def known_values(self, record: JobRecord) -> list[str]:
        """Every value that somebody handed over for the job."""
        return list(self.received.get(values_id(record), {}).values())

    def value_at(self, record: JobRecord, reference: str) -> str:
        """The value at a reference of the job's `notify`: its submitter hands it over by that name.

        Raises PreconditionError where it is not known.
        """
        if self._is_submitted_elsewhere(record):
            raise PreconditionError(
                f"{reference} is known on {submitting_host(record)} alone, where the job was "
                "submitted"
            )
        return self._known(record, reference, reference)

    def is_on_other_host(self, record: JobRecord) -> bool:
        """Whether the job needs values that only the submitting machine has."""
        is_bound = bool(references_to(record.spec.secrets, ENVIRONMENT, FILE))
        return is_bound and self._is_submitted_elsewhere(record)

    def _is_submitted_elsewhere(self, record: JobRecord) -> bool:
        return record.host_id not in ("", self.host_id)

    def values(self, record: JobRecord) -> dict[str, str]:
        """The values for the agents of a job. Raises PreconditionError while one is missing."""
        wanted = references_to(record.spec.secrets, ENVIRONMENT, FILE)
        if self.is_on_other_host(record):
            raise PreconditionError(
                f"the value of {', '.join(wanted)} is known on {submitting_host(record)} alone, "
                "where the job was submitted; run there: tpuctl supervisor run"
            )
        return {name: self._known(record, name, wanted[name]) for name in wanted}

    def _known(self, record: JobRecord, name: str, where: str) -> str:
        replica, handed = record.replica, self.received.get(values_id(record), {})
        if name in handed:
            return handed[name]
        try:
            return _value(name, where, self.environ)
        except UnsetVariableError as error:
            variable = where.removeprefix(ENVIRONMENT)
            command = (
                f"tpuctl service update {replica.service} FILE"
                if replica
                else f"tpuctl job retry {record.job_id}"
            )
            raise PreconditionError(f"{error}; set {variable}, then run: {command}") from error
        except TpuctlError as error:
            raise PreconditionError(str(error)) from error

    def missing_reason(self, record: JobRecord) -> str:
        """Why the job cannot start here now, with the command that helps; empty if it can."""
        try:
            self.values(record)
        except PreconditionError as error:
            return str(error)
        return ""


def values_id(record: JobRecord) -> str:
    """The name under which a job's values are kept: that of its service for a replica."""
    return f"{SERVICE}{record.replica.service}" if record.replica else record.job_id


def submitting_host(record: JobRecord) -> str:
    """The name of the machine where the job was submitted."""
    return record.owner.rpartition("@")[2]


def _value(name: str, where: str, environ: Mapping[str, str]) -> str:
    if where.startswith(FILE):
        value = _read(name, Path(where.removeprefix(FILE)))
    else:
        variable = where.removeprefix(ENVIRONMENT)
        if not environ.get(variable):
            raise UnsetVariableError(
                f"secret {name}: the environment has no {variable}",
                hint=f"run: export {variable}=..., or say in the job file where the value is",
            )
        value = environ[variable]
    if "\0" in value:
        raise UsageError(f"secret {name} has a NUL byte, which no environment can hold")
    # Bytes of an environment that are not UTF-8 come as half surrogate pairs.
    if value.encode("utf-8", "replace").decode() != value:
        raise UsageError(f"secret {name} is not UTF-8 text")
    return value


def _read(name: str, path: Path) -> str:
    """What a file holds, without the line end that editors put there."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise unreadable_error(path, error, place=f"secret {name}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"secret {name}: {path} is larger than 64 KiB")
    text = _text(data)
    if text is None:
        raise UsageError(f"secret {name}: {path} is not UTF-8 text")
    return text.removesuffix("\n").removesuffix("\r")


def _text(data: bytes) -> str | None:
    """None rather than an error that holds the bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
