"""IAM policies on the wire: bindings of a role to members, guarded by an etag."""

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code

_STANDARD = str.maketrans("-_", "+/")
"""gcloud sends bytes in the alphabet of base64 that URLs have."""
VERSION = 1
"""Conditions, which need version 3, are not kept."""


def bindings_of(roles: Mapping[str, Iterable[str]]) -> list[dict[str, Any]]:
    """The bindings of a policy, by role, from the roles of each member."""
    members: dict[str, list[str]] = {}
    for member, held in roles.items():
        for role in held:
            members.setdefault(role, []).append(member)
    return [{"role": role, "members": sorted(members[role])} for role in sorted(members)]


def shown_policy(bindings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The policy as google.iam.v1.Policy in JSON."""
    shown = {"version": VERSION, "etag": etag_of(bindings)}
    return {**shown, "bindings": list(bindings)} if bindings else shown


def etag_of(bindings: Sequence[Mapping[str, Any]]) -> str:
    """A hash of the bindings, which tells whether somebody else changed the policy."""
    text = json.dumps(list(bindings), sort_keys=True)
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode("ascii")


def checked_policy(
    body: Mapping[str, Any], before: Sequence[Mapping[str, Any]], known_roles: Collection[str]
) -> dict[str, list[str]]:
    """The roles of each member in the policy of a request, which replaces the one before.

    Raises CloudError, in Google's words for an unknown role and for a stale etag.
    """
    policy = body.get("policy")
    bindings = policy.get("bindings", []) if isinstance(policy, Mapping) else None
    if not isinstance(policy, Mapping) or not isinstance(bindings, list):
        raise CloudError(Code.INVALID_ARGUMENT, "Policy is required.")
    if policy.get("etag") and str(policy["etag"]).translate(_STANDARD) != etag_of(before):
        sentence = (
            "There were concurrent policy changes. Please retry the whole read-modify-write with "
            "exponential backoff."
        )
        raise CloudError(Code.ABORTED, sentence)
    roles: dict[str, list[str]] = {}
    for binding in bindings:
        role, members = _checked_binding(binding, known_roles)
        for member in members:
            roles.setdefault(member, []).append(role)
    return {member: sorted(set(held)) for member, held in roles.items()}


def _checked_binding(binding: Any, known_roles: Collection[str]) -> tuple[str, list[str]]:
    given = binding if isinstance(binding, Mapping) else {}
    role, members = given.get("role"), given.get("members", [])
    if role not in known_roles:
        raise CloudError(Code.INVALID_ARGUMENT, f"Role {role} is not supported for this resource.")
    if not isinstance(members, list) or not all(isinstance(one, str) for one in members):
        raise CloudError(Code.INVALID_ARGUMENT, "members must be a list of strings.")
    if given.get("condition"):
        raise CloudError(Code.UNIMPLEMENTED, "Conditions are not emulated by localsim")
    return str(role), members
