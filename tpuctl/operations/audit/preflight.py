"""Whether a context can work, and the command that fixes what cannot."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from tpuctl import catalog
from tpuctl.config import Context
from tpuctl.errors import (
    CredentialsError,
    PermissionDeniedError,
    TpuctlError,
    TransientError,
    UsageError,
)
from tpuctl.operations.slices.specs import unknown_name_error

PROJECT = re.compile(r"([a-z0-9.-]{1,63}:)?[a-z0-9-]{1,63}")
"""An id, a number, or an id in the domain of an organization."""
BUCKET = "bucket"
_MISSING = re.compile(r"Permission '[\w.]+' denied")
"""What IAM says, and nobody else: the API is enabled, and a role is lacking."""


@dataclass(frozen=True, slots=True)
class PreflightCheck:
    """One thing a context needs; `error` and `fix` when it has not got it."""

    name: str
    error: TpuctlError | None
    fix: str

    @property
    def is_explained(self) -> bool:
        """Whether the error's own hint is better than `fix`: a bad key file, no network, a role."""
        if isinstance(self.error, CredentialsError | TransientError):
            return True
        is_worded = self.name != BUCKET and self.error is not None and self.error.hint is not None
        return is_worded and _MISSING.search(str(self.error)) is not None


def require_valid(context: Context) -> None:
    """Raises UsageError for a project, zone or dialer that no cloud can have."""
    from tpuctl.api.ssh.dialers import parse_dialer

    if not PROJECT.fullmatch(context.project):
        hint = "run: gcloud projects list"
        raise UsageError(f"{context.project[:100]!r} is not a valid project ID", hint=hint)
    if context.zone not in catalog.zones():
        near = catalog.nearest(context.zone, catalog.zones())
        raise unknown_name_error(catalog.UnknownError("zone", context.zone, near))
    parse_dialer(context.dialer)


def run_checks(context: Context) -> Iterator[PreflightCheck]:
    """Make the checks in order and yield each; a check that needs a failed one is left out."""
    from tpuctl.api.connect import tpu_api

    region = context.zone.rpartition("-")[0]
    steps: tuple[tuple[str, Callable[[], object], str], ...] = (
        (
            "credentials",
            lambda: tpu_api(context).close(),
            "gcloud auth application-default login",
        ),
        (
            "project and Cloud TPU API",
            lambda: _call_tpu_api(context, all_zones=True),
            f"gcloud services enable tpu.googleapis.com --project={context.project}",
        ),
        (
            "permission to list nodes",
            lambda: _call_tpu_api(context, all_zones=False),
            f"gcloud projects add-iam-policy-binding {context.project} "
            "--member=user:YOU@EXAMPLE.COM --role=roles/tpu.admin",
        ),
        (
            BUCKET,
            lambda: _list_bucket(context),
            f"gcloud storage buckets create gs://{context.bucket} "
            f"--project={context.project} --location={region}",
        ),
    )
    grant = (
        f"gcloud storage buckets add-iam-policy-binding gs://{context.bucket} "
        "--member=user:YOU@EXAMPLE.COM --role=roles/storage.objectUser"
    )
    for name, attempt, fix in steps:
        error = _run_check(attempt)
        is_closed = name == BUCKET and isinstance(error, PermissionDeniedError)
        yield PreflightCheck(name, error, grant if is_closed else fix)
        if error and name != steps[2][0]:
            return


def _run_check(attempt: Callable[[], object]) -> TpuctlError | None:
    try:
        attempt()
    except TpuctlError as error:
        return error
    return None


def _call_tpu_api(context: Context, *, all_zones: bool) -> None:
    from tpuctl.api.connect import tpu_api

    with closing(tpu_api(context)) as api:
        if all_zones:
            api.list_zones()
        else:
            api.list_nodes(context.zone)


def _list_bucket(context: Context) -> None:
    from tpuctl.api.storage import storage_session
    from tpuctl.store import open_store

    store = open_store(f"gs://{context.bucket}", client=storage_session(context))
    next(iter(store.list("tpuctl/")), None)
