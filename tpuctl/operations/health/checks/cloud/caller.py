"""Who asks, as a policy names them, and the command that grants them a role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, TypeVar

from tpuctl import config
from tpuctl.errors import NotFoundError
from tpuctl.models.health import HealthCheck
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope

if TYPE_CHECKING:
    from tpuctl.api.tpu.rest import RestApi

T = TypeVar("T")

EVERYBODY = "allUsers"
"""As what a policy knows a caller without credentials."""
_OF_GCLOUD = 'user:"$(gcloud config get-value account)"'
"""The account of gcloud, for credentials that do not say whose they are."""
_ACCOUNT_DOMAIN = ".gserviceaccount.com"


def of_one_cloud(
    name: str, ask: Callable[[DoctorScope], Iterator[HealthCheck]], *endpoints: str
) -> DoctorCheck:
    """A check that asks these endpoints, by the names of the context's fields.

    It has no line where one of them belongs to another cloud than the nodes: what that one says is
    about something else.
    """

    def ask_own(scope: DoctorScope) -> Iterator[HealthCheck]:
        if scope.context.is_one_cloud(*endpoints):
            yield from ask(scope)

    return DoctorCheck(name, ask_own)


def of_bucket(name: str, ask: Callable[[DoctorScope], Iterator[HealthCheck]]) -> DoctorCheck:
    """A check of the bucket, which has no line where there is none: another line says so."""

    def ask_present(scope: DoctorScope) -> Iterator[HealthCheck]:
        with suppress(NotFoundError):
            yield from ask(scope)

    return DoctorCheck(name, ask_present)


def member_of(scope: DoctorScope) -> str:
    """The member of a policy that the context's credentials speak for, as a shell reads it."""
    tokens = scope.clients.tokens()
    if tokens is None:
        return EVERYBODY
    if not tokens.account:
        return _OF_GCLOUD
    kind = "serviceAccount" if tokens.account.endswith(_ACCOUNT_DOMAIN) else "user"
    return f"{kind}:{tokens.account}"


def grant_command(scope: DoctorScope, role: str) -> str:
    """The command by which an owner of the project gives the caller a role in it."""
    return (
        f"gcloud projects add-iam-policy-binding {scope.context.project} "
        f"--member={member_of(scope)} --role={role}"
    )


def bucket_grant_command(bucket: str, member: str, role: str) -> str:
    """The command by which an administrator of the bucket gives a member a role on it."""
    return (
        f"gcloud storage buckets add-iam-policy-binding gs://{bucket} "
        f"--member={member} --role={role}"
    )


def edit_command(scope: DoctorScope, option: str, value: str) -> str | None:
    """The command that changes the context; None for one that the configuration does not have."""
    name = scope.context.name
    if name not in config.load(scope.home).contexts:
        return None
    return f"tpuctl context edit {name} {option} {value}"


def ask_endpoint(scope: DoctorScope, endpoint: str, question: Callable[[RestApi], T]) -> T:
    """The answer of one endpoint, whose connection is closed."""
    with closing(scope.clients.rest(endpoint)) as rest:
        return question(rest)
