"""The access control lists of a bucket: its own, and the one that new objects get.

A bucket's own list is another view of its policy: the roles `roles/storage.legacyBucket…`, so that
a change of either shows in both (cloud.google.com/storage/docs/access-control/iam#acls).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localsim.rules.objects.access.access_lists import (
    BUCKET_LIST,
    DEFAULT_LIST,
    OWNER,
    READER,
    WRITER,
    AccessList,
    ListKind,
    check_public,
    entity_of,
    member_of,
    predefined_list,
    requested_list,
    stored_list,
    team,
    uniform_access_refused,
    with_owner,
)
from localsim.rules.objects.buckets.bucket_fields import has_uniform_access, prevents_public_access
from localsim.rules.objects.buckets.policies import Binding
from localsim.rules.objects.storage_model import Bucket, Properties

OWN_FIELD, DEFAULT_FIELD = "acl", "defaultObjectAcl"
_ROLES = {
    OWNER: "roles/storage.legacyBucketOwner",
    WRITER: "roles/storage.legacyBucketWriter",
    READER: "roles/storage.legacyBucketReader",
}


@dataclass(frozen=True, slots=True)
class PredefinedLists:
    """The names of the predefined lists that a request asks for."""

    own: str | None = None
    default: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the request asks for none."""
        return not self.own and not self.default


NO_LISTS = PredefinedLists()
NO_ENTRIES: AccessList = {}


@dataclass(frozen=True, slots=True)
class BucketLists:
    """The lists of a bucket, or those of them that a request changes."""

    own: AccessList | None
    default: AccessList | None


def own_list(bindings: Sequence[Binding]) -> AccessList:
    """The bucket's own list, from its policy: who has most comes first, and the project's teams."""
    entries: dict[str, str] = {}
    for role, name in _ROLES.items():
        named = [entity_of(member) for each in _plain(bindings, name) for member in each["members"]]
        for entity in sorted(filter(None, named), key=_team_rank):
            entries.setdefault(entity, role)
    return entries


def with_own_list(
    bucket: Bucket, bindings: Sequence[Binding], entries: AccessList
) -> list[Binding]:
    """The policy in which the bucket's own list is another one."""
    others = [
        each for each in bindings if each["role"] not in _ROLES.values() or "condition" in each
    ]
    granted: list[Binding] = []
    for role, name in _ROLES.items():
        unlisted = [
            member
            for each in _plain(bindings, name)
            for member in each["members"]
            if entity_of(member) is None
        ]
        listed = [
            member_of(entity, bucket.project) for entity, has in entries.items() if has == role
        ]
        if listed or unlisted:
            granted.append({"role": name, "members": [*listed, *unlisted]})
    return [*granted, *others]


def default_list(bucket: Bucket) -> AccessList:
    """The list that new objects of the bucket get, without their owners."""
    found = stored_list(bucket.properties, DEFAULT_FIELD)
    if found is None:
        return predefined_list(DEFAULT_LIST, "projectPrivate", bucket.project)
    return found


def owner_of_bucket(bucket: Bucket) -> str:
    """The entity that owns a bucket: the owners of its project."""
    return team("owners", bucket.project)


def asked_lists(bucket: Bucket, resource: Properties, predefined: PredefinedLists) -> BucketLists:
    """The lists that a request sets on a bucket with these settings; raises StorageError."""
    own = requested_list(BUCKET_LIST, resource.get(OWN_FIELD), predefined.own, bucket.project)
    default = requested_list(
        DEFAULT_LIST, resource.get(DEFAULT_FIELD), predefined.default, bucket.project
    )
    if DEFAULT_FIELD in resource and default is None and not has_uniform_access(bucket.properties):
        default = {}  # gsutil makes it private so
    return BucketLists(
        None if own is None else checked_own(bucket, own),
        None if default is None else checked_default(bucket, default),
    )


def checked_own(bucket: Bucket, entries: AccessList, before: AccessList = NO_ENTRIES) -> AccessList:
    """A bucket's own list with its owner; raises StorageError where it may not have the list."""
    _check(bucket, BUCKET_LIST, entries, before)
    return with_owner(entries, owner_of_bucket(bucket))


def checked_default(
    bucket: Bucket, entries: AccessList, before: AccessList = NO_ENTRIES
) -> AccessList:
    """A list for new objects; raises StorageError where the bucket may not have it."""
    _check(bucket, DEFAULT_LIST, entries, before)
    return entries


def check_readable(bucket: Bucket, kind: ListKind) -> None:
    """Raise 400 where uniform access hides the lists."""
    if has_uniform_access(bucket.properties):
        raise uniform_access_refused(kind.cannot_read)


def _check(bucket: Bucket, kind: ListKind, entries: AccessList, before: AccessList) -> None:
    if has_uniform_access(bucket.properties):
        raise uniform_access_refused(kind.cannot_change)
    check_public(entries, before, is_prevented=prevents_public_access(bucket.properties))


def _plain(bindings: Sequence[Binding], role: str) -> list[Mapping[str, Any]]:
    return [each for each in bindings if each["role"] == role and "condition" not in each]


def _team_rank(entity: str) -> int:
    ranks = ("project-owners-", "project-editors-", "project-viewers-")
    found = [rank for rank, prefix in enumerate(ranks) if entity.startswith(prefix)]
    return found[0] if found else len(ranks)
