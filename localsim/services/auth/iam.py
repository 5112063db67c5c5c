"""Service accounts, their roles, and the permission that each method asks for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from localsim.rules.model.cloud_errors import CloudError, Code, ErrorInfo
from localsim.rules.scenario.project_checks import EVERYBODY
from localsim.rules.scenario.roles import OWNER, POLICY_ADMIN, ROLES, permissions

DOMAIN = "googleapis.com"
TPU_SERVICE = "tpu.googleapis.com"

ACCOUNTS: Mapping[str, Sequence[str]] = {
    "admin": (
        "roles/tpu.admin",
        "roles/storage.admin",
        "roles/storage.hmacKeyAdmin",
        "roles/iam.serviceAccountTokenCreator",
    ),
    "viewer": ("roles/tpu.viewer",),
    "nobody": (),
}
"""Service accounts that have a key, and their roles in the project."""


ANONYMOUS = "Anonymous caller"
"""What Google calls a caller without token."""
_STORAGE_KINDS = {
    "storage.buckets.create": "Google Cloud project",
    "storage.buckets.list": "Google Cloud project",
    "storage.objects.list": "Google Cloud Storage bucket",
}
"""What a permission is about, where its name does not say so."""


@dataclass(frozen=True, slots=True)
class Account:
    """A service account that calls, by its e-mail address, with its roles in the project."""

    email: str
    roles: Sequence[str]


def everybody(roles: Sequence[str]) -> Account | None:
    """Whoever calls without token, from the roles of `allUsers`; None for an owner.

    Nobody but the owner of this machine reaches the servers so, who may always set the policy.
    """
    return None if OWNER in roles else Account(ANONYMOUS, (*roles, POLICY_ADMIN))


def members_of(account: Account) -> frozenset[str]:
    """The members of a policy that an account counts as."""
    if account.email == ANONYMOUS:
        return frozenset({EVERYBODY})
    named = (f"{kind}:{account.email}" for kind in ("serviceAccount", "user"))
    return frozenset({EVERYBODY, "allAuthenticatedUsers", *named})


def with_roles(account: Account, roles: Iterable[str]) -> Account:
    """The account with more roles, as far as they are known here."""
    return Account(account.email, (*account.roles, *(role for role in roles if role in ROLES)))


def granted_permissions(account: Account | None, wanted: Iterable[str]) -> list[str]:
    """The wanted permissions that an account has; None stands for an owner, who has all."""
    held = None if account is None or OWNER in account.roles else permissions(account.roles)
    return [each for each in wanted if held is None or each in held]


def storage_refusal(email: str, permission: str) -> str:
    """What Cloud Storage says to a caller who lacks a permission."""
    kind = _STORAGE_KINDS.get(permission) or (
        "Google Cloud Storage object"
        if permission.startswith("storage.objects.")
        else "Google Cloud Storage bucket"
    )
    return (
        f"{email} does not have {permission} access to the {kind}. "
        f"Permission '{permission}' denied on resource (or it may not exist)."
    )


def permission_denied(permission: str, resource: str, service: str = TPU_SERVICE) -> CloudError:
    """A refusal with PERMISSION_DENIED in the service's words; `resource` is a path."""
    return CloudError(
        Code.PERMISSION_DENIED,
        f"Permission '{permission}' denied on resource '//{service}/{resource}' "
        "(or it may not exist).",
        ErrorInfo(
            "IAM_PERMISSION_DENIED", DOMAIN, {"permission": permission, "resource": resource}
        ),
    )
