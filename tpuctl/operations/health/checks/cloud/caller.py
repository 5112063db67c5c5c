"""Who asks, as a policy names them, and the command that grants them a role."""

from collections.abc import Callable
from typing import TypeVar

from tpuctl.api.tpu.rest import RestApi
from tpuctl.operations.health.scope import DoctorScope

T = TypeVar("T")

EVERYBODY = "allUsers"
"""As what a policy knows a caller without credentials."""
_OF_GCLOUD = 'user:"$(gcloud config get-value account)"'
"""The account of gcloud, for credentials that do not say whose they are."""
_ACCOUNT_DOMAIN = ".gserviceaccount.com"


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


def ask_endpoint(scope: DoctorScope, endpoint: str, question: Callable[[RestApi], T]) -> T:
    """The answer of one endpoint, whose connection is closed."""
    rest = scope.clients.rest(endpoint)
    try:
        return question(rest)
    finally:
        rest.close()
