"""Every failure a user can act on: one class, one stable exit code, one hint.

    TpuctlError                     1   a bug in tpuctl
    ├── UsageError                  2   wrong command line, file or setting
    ├── NotFoundError              10
    ├── ConflictError              11   it exists, and is not ours
    ├── PreconditionError          12   wrong state, or somebody was faster
    ├── CredentialsError           20
    ├── PermissionDeniedError      21
    ├── CapacityError              30   stock-out or quota
    ├── PreemptedError             31
    ├── TransientError             40   retries spent; safe to run again
    ├── DeadlineError              41   waited long enough; the work goes on
    ├── OutcomeUnknownError        42   a change may or may not have happened
    ├── IntegrityError             50   bytes are not what was written
    ├── NoCheckpointError          51
    ├── LocalIOError               60
    ├── LockedError                61
    ├── DamagedStateError          62
    ├── PartialFailureError        70   some workers or objects failed
    ├── JobFailedError             71   the user's job failed
    └── RefusedError               80   refused for safety

Imported by training programs, so: standard library only, Python 3.10.
"""

from __future__ import annotations


class TpuctlError(Exception):
    """A failure that is printed as one line and becomes `exit_code`."""

    exit_code = 1
    reason = "internal"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Say what failed and, when there is one, the command to run next."""
        super().__init__(message)
        self.hint = hint


def class_by_exit_code(exit_code: int) -> type[TpuctlError]:
    """The class with that exit code."""
    kinds = {kind.exit_code: kind for kind in TpuctlError.__subclasses__()}
    return kinds.get(exit_code, TpuctlError)


class UsageError(TpuctlError):
    """The command line, a file or a setting is wrong."""

    exit_code = 2
    reason = "usage"


class NotFoundError(TpuctlError):
    """The named thing does not exist."""

    exit_code = 10
    reason = "not_found"


def unreadable_error(
    path: object, error: OSError, *, place: str = "", hint: str = ""
) -> TpuctlError:
    """The error for a file that cannot be opened: NotFoundError, or LocalIOError if it is there.

    `place` says which option, key or secret names the file.
    """
    place = f"{place}: " if place else ""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return NotFoundError(f"{place}there is no file {path}", hint=hint or "check the path")
    return LocalIOError(f"{place}cannot read {path}: {error.strerror}", hint=hint or None)


class ConflictError(TpuctlError):
    """The name is taken by something that is not ours."""

    exit_code = 11
    reason = "conflict"


class PreconditionError(TpuctlError):
    """The thing is in the wrong state, or somebody else was faster."""

    exit_code = 12
    reason = "precondition_failed"


class CredentialsError(TpuctlError):
    """No usable credentials."""

    exit_code = 20
    reason = "no_credentials"


class PermissionDeniedError(TpuctlError):
    """The credentials may not do this."""

    exit_code = 21
    reason = "permission_denied"


class CapacityError(TpuctlError):
    """No chips of that type, or no quota for them."""

    exit_code = 30
    reason = "no_capacity"


class PreemptedError(TpuctlError):
    """The slice was taken away."""

    exit_code = 31
    reason = "preempted"


class TransientError(TpuctlError):
    """The service failed after every retry; safe to run again."""

    exit_code = 40
    reason = "transient"


class DeadlineError(TpuctlError):
    """The time to wait is over; the work goes on."""

    exit_code = 41
    reason = "deadline"


class OutcomeUnknownError(TpuctlError):
    """A change may or may not have happened."""

    exit_code = 42
    reason = "outcome_unknown"


class IntegrityError(TpuctlError):
    """Bytes are not what was written."""

    exit_code = 50
    reason = "integrity"


class NoCheckpointError(TpuctlError):
    """There is no checkpoint that can be restored."""

    exit_code = 51
    reason = "no_checkpoint"


class LocalIOError(TpuctlError):
    """This machine's disk, file system or ports refused."""

    exit_code = 60
    reason = "local_io"


class LockedError(TpuctlError):
    """Another process of this machine holds the lock."""

    exit_code = 61
    reason = "locked"


class DamagedStateError(TpuctlError):
    """A state file cannot be read."""

    exit_code = 62
    reason = "damaged_state"


class PartialFailureError(TpuctlError):
    """Some workers or objects failed, others did not."""

    exit_code = 70
    reason = "partial_failure"


class JobFailedError(TpuctlError):
    """The user's own program failed."""

    exit_code = 71
    reason = "job_failed"


class RefusedError(TpuctlError):
    """Refused, because it could destroy or expose something."""

    exit_code = 80
    reason = "refused"
