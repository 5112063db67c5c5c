"""The IAM policies of buckets: read, checked and written as a whole.

Who has a role in the project needs none of a bucket: a policy adds to what that one grants. Rules
and words are the JSON API's as a public client's tests recorded them in October 2026.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from localsim.rules.objects.access.access_lists import PUBLIC, public_access_refused
from localsim.rules.objects.buckets.bucket_fields import has_uniform_access, prevents_public_access
from localsim.rules.objects.storage_model import Bucket, StorageError, invalid, precondition_failed

Binding = dict[str, Any]
"""`role`, `members` and maybe `condition`."""

CONDITIONS_VERSION = 3
"""The first version of policies that can have conditions."""
_MAX_PERMISSIONS = 84
_ROLE = re.compile(r"(roles|organizations/[^/]+/roles|projects/[^/]+/roles)/[^/]+")
_PERMISSION = re.compile(r"storage\.[A-Za-z]+\.[A-Za-z]+")
_OF_PROJECTS = ("storage.buckets.create", "storage.buckets.list")
_LOWERED = ("user", "serviceAccount", "group", "domain")
_MEMBER_KINDS = (
    *_LOWERED,
    "deleted",
    "principal",
    "principalSet",
    "projectEditor",
    "projectOwner",
    "projectViewer",
)


def first_bindings(bucket: Bucket) -> list[Binding]:
    """The bindings of a new bucket: the legacy roles, granted to its project."""
    owners = [f"projectEditor:{bucket.project}", f"projectOwner:{bucket.project}"]
    viewers = [f"projectViewer:{bucket.project}"]
    kinds = ("Bucket", "Object") if has_uniform_access(bucket.properties) else ("Bucket",)
    return [
        {"role": f"roles/storage.legacy{kind}{role}", "members": list(members)}
        for kind in kinds
        for role, members in (("Owner", owners), ("Reader", viewers))
    ]


def shown_policy(bucket: Bucket, bindings: Sequence[Binding], version: int) -> dict[str, Any]:
    """The policy as storage#policy; a version below 3 cannot express conditions."""
    is_conditional = any("condition" in binding for binding in bindings)
    tells = is_conditional and version >= CONDITIONS_VERSION
    shown = list(bindings) if tells else [_without_condition(binding) for binding in bindings]
    return {
        "kind": "storage#policy",
        "resourceId": f"projects/_/buckets/{bucket.name}",
        "version": CONDITIONS_VERSION if tells else 1,
        "etag": bucket.etag,
        **({"bindings": shown} if shown else {}),
    }


def checked_bindings(
    bucket: Bucket, policy: Mapping[str, Any], etag: str | None = None
) -> list[Binding]:
    """The bindings of a policy as they are stored; raises StorageError.

    `etag` is that of what has the policy, the bucket's unless it is given.
    """
    _check_etag(etag or bucket.etag, policy.get("etag"))
    given = policy.get("bindings") or []
    if not isinstance(given, list):
        raise invalid("bindings must be a list.")
    bindings = [_checked(bucket, binding) for binding in given]
    if any("condition" in binding for binding in bindings):
        _check_conditions(bucket, policy.get("version"))
    kept: dict[str, Binding] = {}
    for binding in bindings:
        same = kept.setdefault(
            f"{binding['role']} {binding.get('condition')}", {**binding, "members": []}
        )
        same["members"] = list(dict.fromkeys([*same["members"], *binding["members"]]))
    return [binding for binding in kept.values() if binding["members"]]


def permissions_of_caller(asked: Sequence[str]) -> list[str]:
    """The permissions that the caller has on a bucket, which are all.

    Raises StorageError 400 for names that are not permissions.
    """
    if not asked:
        raise StorageError(400, "required", "Required parameter: permissions")
    if len(asked) > _MAX_PERMISSIONS:
        raise invalid(f"Must specify <= {_MAX_PERMISSIONS} permissions.")
    if len(set(asked)) < len(asked):
        raise invalid("Duplicate permissions must not be specified.")
    for permission in asked:
        if permission in _OF_PROJECTS:
            raise invalid("Invalid argument.")
        if not _PERMISSION.fullmatch(permission):
            raise invalid(f"{permission} is not a valid Google Cloud Storage permission.")
    return list(asked)


def _check_etag(present: str, etag: Any) -> None:
    """Raise 412 for a policy that was read before the last change."""
    if not etag or etag == present:
        return
    try:
        base64.b64decode(str(etag), validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"Invalid value for ByteString: {etag}") from None
    raise precondition_failed()


def _checked(bucket: Bucket, binding: Any) -> Binding:
    if not isinstance(binding, Mapping) or not _ROLE.fullmatch(str(binding.get("role"))):
        raise invalid(
            'The role name must be in the form "roles/{role}",'
            ' "organizations/{organization_id}/roles/{role}",'
            ' or "projects/{project_id}/roles/{role}".'
        )
    role, condition = str(binding["role"]), binding.get("condition")
    if role.startswith("roles/") and not role.startswith("roles/storage."):
        raise invalid(f"Role {role} is not supported for this resource.")
    given = binding.get("members") or []
    if not isinstance(given, list):
        raise invalid("members must be a list.")
    members = [_checked_member(bucket, str(member)) for member in given]
    kept: Binding = {"role": role, "members": members}
    return kept if condition is None else {**kept, "condition": condition}


def _checked_member(bucket: Bucket, member: str) -> str:
    if member in PUBLIC:
        if prevents_public_access(bucket.properties):
            raise public_access_refused()
        return member
    kind, _, name = member.partition(":")
    if kind not in _MEMBER_KINDS:
        raise invalid(
            f"The member {member} is of an unknown type. Please set a valid type prefix for the"
            " member."
        )
    if kind == "user" and not name:
        raise invalid("The email address of a user in the IAM policy is empty.")
    return f"{kind}:{name.lower()}" if kind in _LOWERED else member


def _check_conditions(bucket: Bucket, version: Any) -> None:
    if not has_uniform_access(bucket.properties):
        raise precondition_failed(
            "To set IAM conditions in this bucket, enable uniform bucket-level access. This ensures"
            " that all object access is controlled uniformly at the bucket-level without"
            " individual, object-level permissions. Learn more at"
            " https://cloud.google.com/storage/docs/uniform-bucket-level-access"
        )
    if not isinstance(version, int) or version < CONDITIONS_VERSION:
        raise invalid(
            f"Specified policy version ({version or 0}) must be at least {CONDITIONS_VERSION} based"
            " on the policy's contents. For more information, please refer to"
            " https://cloud.google.com/iam/help/allow-policies/versions."
        )


def _without_condition(binding: Binding) -> Binding:
    """The name that a conditional role has in a policy of a version below 3."""
    if "condition" not in binding:
        return binding
    digest = hashlib.sha256(repr(binding["condition"]).encode()).hexdigest()[:20]
    return {"role": f"{binding['role']}_withcond_{digest}", "members": binding["members"]}
