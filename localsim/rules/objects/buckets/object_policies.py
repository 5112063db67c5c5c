"""The IAM policy of an object: its access control list in the words of IAM.

There are two roles, and each is a role of the list: cloud.google.com/storage/docs/access-control/
iam-roles#legacy-roles. With uniform access an object has no policy.
"""

from collections.abc import Mapping
from typing import Any

from localsim.rules.objects.access.access_lists import (
    OWNER,
    READER,
    AccessList,
    entity_of,
    member_of,
)
from localsim.rules.objects.buckets.policies import Binding, checked_bindings
from localsim.rules.objects.storage_model import Bucket, StoredObject, invalid

ROLES = {
    OWNER: "roles/storage.legacyObjectOwner",
    READER: "roles/storage.legacyObjectReader",
}


def object_policy(bucket: Bucket, stored: StoredObject, entries: AccessList) -> dict[str, Any]:
    """The policy of an object as storage#policy."""
    bindings = [
        {"role": name, "members": members}
        for role, name in ROLES.items()
        if (
            members := [
                member_of(each, bucket.project) for each in entries if entries[each] == role
            ]
        )
    ]
    name = f"{stored.name}#{stored.generation}"
    return {
        "kind": "storage#policy",
        "resourceId": f"projects/_/buckets/{stored.bucket}/objects/{name}",
        "version": 1,
        "etag": stored.etag,
        "bindings": bindings,
    }


def entries_of_policy(
    bucket: Bucket, stored: StoredObject, policy: Mapping[str, Any]
) -> dict[str, str]:
    """The access control list that a policy stands for; raises StorageError."""
    entries: dict[str, str] = {}
    bindings = checked_bindings(bucket, policy, stored.etag)
    for role, name in ROLES.items():
        for member in _members(bindings, name):
            entity = entity_of(member)
            if entity is None:
                raise invalid(f"The member {member} is not supported for this resource.")
            entries.setdefault(entity, role)
    for binding in bindings:
        if binding["role"] not in ROLES.values():
            raise invalid(f"Role {binding['role']} is not supported for this resource.")
    return entries


def _members(bindings: list[Binding], role: str) -> list[str]:
    return [member for each in bindings if each["role"] == role for member in each["members"]]
