"""Access control lists on the wire: what a request asks for, and the entries as resources."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from localsim.rules.objects.access.access_lists import AccessList
from localsim.rules.objects.buckets.bucket_access import (
    DEFAULT_FIELD,
    OWN_FIELD,
    BucketLists,
    PredefinedLists,
    owner_of_bucket,
)
from localsim.rules.objects.buckets.object_access import ObjectAccess
from localsim.rules.objects.properties import ACL, OWNER_EMAIL, PREDEFINED_ACL
from localsim.rules.objects.storage_model import Bucket, StorageError, StoredObject
from localsim.services.auth import iam
from localsim.services.storage.wire.json_requests import ACCOUNT, StorageCall

Resource = dict[str, Any]
_PREDEFINED_BUCKET, _PREDEFINED_DEFAULT = "predefinedAcl", "predefinedDefaultObjectAcl"


def asked_access(
    call: StorageCall,
    resource: Mapping[str, Any],
    parameter: str = "predefinedAcl",
    permission: str = "",
) -> dict[str, str]:
    """What a request says of the access to an object beside `acl` of its resource.

    That is the name of a predefined list, and who writes the object. Raises 403 for a list from a
    caller who lacks the permission, where one is asked for.
    """
    name = call.query.get(parameter)
    if resource.get(ACL):
        call.sent.add(ACL)
    if permission and (name or resource.get(ACL)):
        require_permission(call, permission)
    return writer_of(call) | ({PREDEFINED_ACL: name} if name else {})


def writer_of(call: StorageCall) -> dict[str, str]:
    """The field that says which account writes an object; none for callers without one."""
    account: iam.Account | None = call.request.get(ACCOUNT)
    is_known = account is not None and account.email != iam.ANONYMOUS
    return {OWNER_EMAIL: account.email} if account is not None and is_known else {}


def asked_bucket_lists(
    call: StorageCall, resource: Mapping[str, Any], permission: str = ""
) -> PredefinedLists:
    """The names of the predefined lists that a request about a bucket asks for."""
    lists = PredefinedLists(call.query.get(_PREDEFINED_BUCKET), call.query.get(_PREDEFINED_DEFAULT))
    if resource.get(OWN_FIELD) or resource.get(DEFAULT_FIELD):
        call.sent.add(ACL)
    if permission and (call.sent or not lists.is_empty):
        require_permission(call, permission)
    return lists


def require_permission(call: StorageCall, permission: str) -> None:
    """Raise 403 for a caller without a permission that depends on the body."""
    account: iam.Account | None = call.request.get(ACCOUNT)
    if account is not None and not iam.granted_permissions(account, [permission]):
        raise StorageError(403, "forbidden", iam.storage_refusal(account.email, permission))


def shows_lists(call: StorageCall, permission: str) -> bool:
    """Whether the reply shows lists: they are asked for, and the caller may see them."""
    projection = call.query.get("projection") or ("full" if ACL in call.sent else "noAcl")
    account: iam.Account | None = call.request.get(ACCOUNT)
    return projection == "full" and bool(iam.granted_permissions(account, [permission]))


def bucket_lists(bucket: Bucket, lists: BucketLists, origin: str) -> Resource:
    """The owner and the lists of a bucket as fields of its resource; none with uniform access."""
    if lists.own is None or lists.default is None:
        return {}
    found = {
        "owner": {"entity": owner_of_bucket(bucket)},
        OWN_FIELD: [bucket_entry(bucket, each, lists.own, origin) for each in lists.own],
        DEFAULT_FIELD: [default_entry(bucket, each, lists.default) for each in lists.default],
    }
    return {name: value for name, value in found.items() if value}


def object_lists(stored: StoredObject, access: ObjectAccess | None, origin: str) -> Resource:
    """The owner and the list of an object as fields of its resource; none with uniform access."""
    if access is None:
        return {}
    entries = [object_entry(stored, each, access.entries, origin) for each in access.entries]
    return {"owner": {"entity": access.owner}, ACL: entries}


def bucket_entry(bucket: Bucket, entity: str, entries: AccessList, origin: str) -> Resource:
    """An entry of a bucket's own list."""
    path = f"storage/v1/b/{bucket.name}/acl/{_quoted(entity)}"
    return {
        "kind": "storage#bucketAccessControl",
        "id": f"{bucket.name}/{entity}",
        "selfLink": f"{origin}/{path}",
        "bucket": bucket.name,
        **_described(entity, entries),
        "etag": bucket.etag,
    }


def default_entry(bucket: Bucket, entity: str, entries: AccessList) -> Resource:
    """An entry of the list that new objects get."""
    return {
        "kind": "storage#objectAccessControl",
        **_described(entity, entries),
        "etag": bucket.etag,
    }


def object_entry(stored: StoredObject, entity: str, entries: AccessList, origin: str) -> Resource:
    """An entry of an object's list."""
    path = f"storage/v1/b/{stored.bucket}/o/{_quoted(stored.name)}/acl/{_quoted(entity)}"
    return {
        "kind": "storage#objectAccessControl",
        "object": stored.name,
        "generation": str(stored.generation),
        "id": f"{stored.bucket}/{stored.name}/{stored.generation}/{entity}",
        "selfLink": f"{origin}/{path}",
        "bucket": stored.bucket,
        **_described(entity, entries),
        "etag": stored.etag,
    }


def entries_page(kind: str, items: Sequence[Resource]) -> Resource:
    """A whole list as a resource; without entries it has no items."""
    return {"kind": kind, **({"items": list(items)} if items else {})}


def _described(entity: str, entries: AccessList) -> Resource:
    kind, _, name = entity.partition("-")
    about: Resource = {}
    if kind in ("user", "group") and "@" in name:
        about = {"email": name}
    elif kind in ("user", "group"):
        about = {"entityId": name}
    elif kind == "domain":
        about = {"domain": name}
    elif kind == "project":
        team, _, number = name.partition("-")
        about = {"projectTeam": {"projectNumber": number, "team": team}}
    return {"entity": entity, "role": entries[entity], **about}


def _quoted(text: str) -> str:
    return quote(text, safe="@")
