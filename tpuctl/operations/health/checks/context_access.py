"""Checks of what every command of a context needs: credentials, the project, the bucket.

`tpuctl context check` and `context create` run these alone, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tpuctl.config import APPLICATION_DEFAULT
from tpuctl.errors import CredentialsError, PermissionDeniedError, TpuctlError, TransientError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope, command_of

if TYPE_CHECKING:
    from tpuctl.config import Context

CREDENTIALS = "credentials"
PROJECT = "project and Cloud TPU API"
LISTING = "permission to list nodes"
BUCKET = "bucket"
_ENABLE = "gcloud services enable tpu.googleapis.com"
_TOKEN_S = 7.0
"""Within which a token is to come: a little less than the doctor waits for its checks."""
_MISSING = re.compile(r"Permission '[\w.]+' denied")
"""What IAM says, and nobody else: the API is enabled, and a role is lacking."""


def ask_credentials(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the source of credentials is there and gives a token, and for whom."""

    def attempt() -> str:
        tokens = scope.clients.tokens()
        if tokens is None:
            return "none are needed"
        tokens.apply({}, _TOKEN_S)
        account = f" of {tokens.account}" if tokens.account else ""
        return f"{_source_text(scope.context)}{account}"

    yield _line_of(CREDENTIALS, attempt, "gcloud auth application-default login")


def ask_project(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the Cloud TPU API answers for the project."""
    project = scope.context.project
    scope.clients.tokens()  # without any, there is nothing to ask with

    def attempt() -> str:
        return f"{project}: {len(scope.clients.tpu().list_zones())} zones"

    yield _line_of(PROJECT, attempt, f"{_ENABLE} --project={project}")


def ask_node_listing(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the account may list the nodes of the context's zone."""
    project, zone = scope.context.project, scope.context.zone
    scope.clients.tokens()  # without any, there is nothing to ask with

    def attempt() -> str:
        nodes, _ = scope.clients.tpu().list_nodes(zone)
        return f"{zone}: {len(nodes)} node{'s' * (len(nodes) != 1)}"

    yield _line_of(
        LISTING,
        attempt,
        f"gcloud projects add-iam-policy-binding {project} "
        "--member=user:YOU@EXAMPLE.COM --role=roles/tpu.admin",
    )


def ask_bucket(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the bucket is there, and its objects may be listed."""
    context = scope.context
    scope.clients.tokens()  # without any, there is nothing to ask with

    def attempt() -> str:
        next(iter(scope.clients.store().list("tpuctl/")), None)
        return f"gs://{context.bucket}"

    found = _line_of(BUCKET, attempt, _bucket_command(context))
    if isinstance(found.error, PermissionDeniedError):
        found = _failure(BUCKET, found.error, _grant_command(context))
    yield found


def _bucket_command(context: Context) -> str:
    region = context.zone.rpartition("-")[0]
    return (
        f"gcloud storage buckets create gs://{context.bucket} "
        f"--project={context.project} --location={region}"
    )


def _grant_command(context: Context) -> str:
    return (
        f"gcloud storage buckets add-iam-policy-binding gs://{context.bucket} "
        "--member=user:YOU@EXAMPLE.COM --role=roles/storage.objectUser"
    )


def _source_text(context: Context) -> str:
    if context.credentials == APPLICATION_DEFAULT:
        return "application-default credentials"
    return f"the key file {context.credentials}"


def _line_of(name: str, attempt: Callable[[], str], fix: str) -> HealthCheck:
    try:
        return HealthCheck(name, HealthState.PASS, attempt())
    except TpuctlError as error:
        return _failure(name, error, fix)


def _failure(name: str, error: TpuctlError, fix: str) -> HealthCheck:
    """The line of a failure; its fix is the error's own hint where that is the better one."""
    state = HealthState.UNKNOWN if isinstance(error, TransientError) else HealthState.FAIL
    is_worded = name != BUCKET and error.hint is not None and _MISSING.search(str(error))
    own = command_of(error.hint)
    is_other = name == PROJECT and own is not None and _ENABLE not in own  # billing, for one
    is_explained = isinstance(error, CredentialsError | TransientError) or is_worded or is_other
    command = own if is_explained else fix
    return HealthCheck(name, state, str(error), command, error=error)


CHECKS = (
    DoctorCheck(CREDENTIALS, ask_credentials),
    DoctorCheck(PROJECT, ask_project),
    DoctorCheck(LISTING, ask_node_listing),
    DoctorCheck(BUCKET, ask_bucket),
)
