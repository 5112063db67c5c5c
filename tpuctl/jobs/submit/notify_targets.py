"""Who gets messages about a job that is submitted: by its file, or else by the context."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from tpuctl.errors import TpuctlError
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.spec import file_notify
from tpuctl.models.job import JobSpec
from tpuctl.models.notify.notify_spec import NotifyTarget

Environ = Mapping[str, str]


def with_context_targets(spec: JobSpec, of_context: Sequence[str], environ: Environ) -> JobSpec:
    """The job with the targets of the context, where its file has no `notify`.

    A target whose secret is not known here is left out. Raises UsageError.
    """
    if spec.notify is not None:
        return spec
    targets = file_notify.read_targets(of_context)
    return replace(spec, notify=tuple(each for each in targets if not _missing(each, environ)))


def context_warnings(spec: JobSpec, of_context: Sequence[str], environ: Environ) -> Iterator[str]:
    """A line for each target of the context that a job without `notify` cannot have."""
    for target in file_notify.read_targets(of_context) if spec.notify is None else ():
        if why := _missing(target, environ):
            yield f"no messages to {target.label}, which the context names: {why}"


def require_known(targets: Sequence[NotifyTarget], environ: Environ) -> None:
    """Raise UsageError, NotFoundError, LocalIOError where a secret of a target is not there."""
    job_secrets.resolve_values(_references(targets), environ)


def known_values(spec: JobSpec, environ: Environ) -> dict[str, str]:
    """What the environment here has of the targets' secrets, by their references."""
    found: dict[str, str] = {}
    wanted = job_secrets.references_to(_references(spec.notify or ()), job_secrets.ENVIRONMENT)
    for reference in wanted:
        with suppress(TpuctlError):
            found |= job_secrets.resolve_values({reference: reference}, environ)
    return found


def commands_of(spec: JobSpec) -> list[tuple[str, ...]]:
    """The commands that get messages about the job."""
    return [target.command for target in spec.notify or () if target.command]


def _missing(target: NotifyTarget, environ: Environ) -> str:
    """Why the secret of a target is not known here; empty where it is."""
    try:
        require_known((target,), environ)
    except TpuctlError as error:
        return str(error)
    return ""


def _references(targets: Sequence[NotifyTarget]) -> dict[str, str]:
    return {target.reference: target.reference for target in targets if target.reference}
