"""The access control list of an object: what it is given, and what nobody has to store.

Properties of an object may have `owner`, the address of the account that wrote it, and `acl`, its
list. An object without a list has that of a new bucket, and its owner's entry; one that is written
where the bucket gives another list has a list of its own from the beginning.
"""

from dataclasses import dataclass
from typing import Any

from localsim.rules.objects.access.access_lists import (
    NEW_OBJECT_LIST,
    OBJECT_LIST,
    OWNER,
    AccessList,
    ListKind,
    check_public,
    default_owner,
    predefined_list,
    requested_list,
    stored_list,
    uniform_access_refused,
    with_owner,
)
from localsim.rules.objects.buckets.bucket_access import DEFAULT_FIELD
from localsim.rules.objects.buckets.bucket_fields import has_uniform_access, prevents_public_access
from localsim.rules.objects.properties import ACCESS_FIELDS, ACL, OWNER_EMAIL, PREDEFINED_ACL
from localsim.rules.objects.storage_model import Bucket, Properties, StoredObject


@dataclass(frozen=True, slots=True)
class ObjectAccess:
    """The owner and the list of an object."""

    owner: str
    entries: AccessList


def object_access(bucket: Bucket, stored: StoredObject) -> ObjectAccess:
    """The owner and the list of an object, as if there were no uniform access."""
    owner = _owner(bucket, stored.properties)
    entries = stored_list(stored.properties, ACL)
    if entries is None:
        standard = predefined_list(OBJECT_LIST, "projectPrivate", bucket.project)
        entries = {**standard, owner: OWNER}
    return ObjectAccess(owner, entries)


def with_access(bucket: Bucket, properties: Properties) -> Properties:
    """The properties of a new object with the list that it gets; raises StorageError."""
    is_plain = ACL not in properties and PREDEFINED_ACL not in properties
    if is_plain and DEFAULT_FIELD not in bucket.properties:
        return properties
    if stored_list(properties, ACL) is not None:  # it is moved
        return properties
    rest = {name: properties[name] for name in properties if name not in (ACL, PREDEFINED_ACL)}
    asked = _asked(NEW_OBJECT_LIST, bucket, properties, properties)
    if asked is not None:
        return rest | {ACL: asked}
    default = stored_list(bucket.properties, DEFAULT_FIELD)
    if default is None or has_uniform_access(bucket.properties):
        return rest
    return rest | {ACL: {**default, _owner(bucket, properties): OWNER}}


def changed_access(bucket: Bucket, stored: StoredObject, change: Properties) -> dict[str, Any]:
    """The access fields of an object after a patch or an update; raises StorageError."""
    kept = {name: stored.properties[name] for name in ACCESS_FIELDS if name in stored.properties}
    asked = _asked(OBJECT_LIST, bucket, stored.properties, change)
    return kept if asked is None else {**kept, ACL: asked}


def checked_entries(bucket: Bucket, stored: StoredObject, entries: AccessList) -> AccessList:
    """A whole new list for an object, with its owner; raises StorageError."""
    before = object_access(bucket, stored)
    _check(OBJECT_LIST, bucket, entries, before.entries)
    return with_owner(entries, before.owner)


def _asked(
    kind: ListKind, bucket: Bucket, properties: Properties, request: Properties
) -> AccessList | None:
    name = request.get(PREDEFINED_ACL)
    entries = requested_list(kind, request.get(ACL), name, bucket.project)
    if entries is None:
        return None
    _check(kind, bucket, entries, {})
    owner = _owner(bucket, properties)
    if not name:
        return with_owner(entries, owner)
    return {owner: OWNER} | {entity: entries[entity] for entity in entries if entity != owner}


def _check(kind: ListKind, bucket: Bucket, entries: AccessList, before: AccessList) -> None:
    if has_uniform_access(bucket.properties):
        raise uniform_access_refused(kind.cannot_change)
    check_public(entries, before, is_prevented=prevents_public_access(bucket.properties))


def _owner(bucket: Bucket, properties: Properties) -> str:
    email = properties.get(OWNER_EMAIL)
    return f"user-{email}" if email else default_owner(bucket.project)
