"""Checks of what every command of a context needs: credentials, the project, the bucket.

`tpuctl context check` and `context create` run these alone, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tpuctl.config import APPLICATION_DEFAULT
from tpuctl.errors import NotFoundError, PermissionDeniedError, TpuctlError, TransientError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.checks.cloud.caller import (
    bucket_grant_command,
    grant_command,
    member_of,
)
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope, command_of

if TYPE_CHECKING:
    from tpuctl.config import Context

CREDENTIALS = "credentials"
PROJECT = "project and Cloud TPU API"
LISTING = "permission to list nodes"
BUCKET = "bucket"
_TOKEN_S = 7.0
"""Within which a token is to come: a little less than the doctor waits for its checks."""


def ask_credentials(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the source of credentials is there and gives a token, and for whom."""

    def attempt() -> str:
        tokens = scope.clients.tokens()
        if tokens is None:
            return "none are needed"
        tokens.apply({}, _TOKEN_S)
        account = f" of {tokens.account}" if tokens.account else ""
        return f"{_source_text(scope.context)}{account}"

    yield _line_of(CREDENTIALS, attempt)


def ask_project(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the Cloud TPU API answers for the project."""
    project = scope.context.project
    scope.clients.tokens()  # without any, there is nothing to ask with

    def attempt() -> str:
        return f"{project}: {len(scope.clients.tpu().list_zones())} zones"

    yield _line_of(PROJECT, attempt, grant_command(scope, "roles/tpu.viewer"))


def ask_node_listing(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the account may list the nodes of the context's zone."""
    zone = scope.context.zone
    scope.clients.tokens()  # without any, there is nothing to ask with

    def attempt() -> str:
        nodes, _ = scope.clients.tpu().list_nodes(zone)
        return f"{zone}: {len(nodes)} node{'s' * (len(nodes) != 1)}"

    yield _line_of(LISTING, attempt, grant_command(scope, "roles/tpu.admin"))


def ask_bucket(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the bucket is there, and its objects may be listed."""
    context = scope.context
    scope.clients.tokens()  # without any, there is nothing to ask with

    try:
        next(iter(scope.clients.store().list("tpuctl/")), None)
    except NotFoundError as error:
        yield HealthCheck(
            BUCKET, HealthState.FAIL, str(error), _bucket_command(context), error=error
        )
    except PermissionDeniedError as error:
        fix = bucket_grant_command(context.bucket, member_of(scope), "roles/storage.objectUser")
        yield HealthCheck(BUCKET, HealthState.FAIL, str(error), fix, error=error)
    except TpuctlError as error:
        yield _failure(BUCKET, error)
    else:
        yield HealthCheck(BUCKET, HealthState.PASS, f"gs://{context.bucket}")


def _bucket_command(context: Context) -> str:
    region = context.zone.rpartition("-")[0]
    return (
        f"gcloud storage buckets create gs://{context.bucket} "
        f"--project={context.project} --location={region}"
    )


def _source_text(context: Context) -> str:
    if context.credentials == APPLICATION_DEFAULT:
        return "application-default credentials"
    return f"the key file {context.credentials}"


def _line_of(name: str, attempt: Callable[[], str], grant: str | None = None) -> HealthCheck:
    """The line of an attempt; `grant` mends a refusal whose hint is not a command."""
    try:
        return HealthCheck(name, HealthState.PASS, attempt())
    except PermissionDeniedError as error:
        return _failure(name, error, grant)
    except TpuctlError as error:
        return _failure(name, error)


def _failure(name: str, error: TpuctlError, fix: str | None = None) -> HealthCheck:
    """The line of a failure; the command in the error's own hint goes before the other one."""
    state = HealthState.UNKNOWN if isinstance(error, TransientError) else HealthState.FAIL
    return HealthCheck(name, state, str(error), command_of(error.hint) or fix, error=error)


CHECKS = (
    DoctorCheck(CREDENTIALS, ask_credentials),
    DoctorCheck(PROJECT, ask_project),
    DoctorCheck(LISTING, ask_node_listing),
    DoctorCheck(BUCKET, ask_bucket),
)
