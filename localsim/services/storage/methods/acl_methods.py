"""The methods of access control lists: of buckets, of their new objects, and of objects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from localsim.rules.objects.access.access_lists import (
    BUCKET_LIST,
    DEFAULT_LIST,
    OBJECT_LIST,
    AccessList,
    ListEdit,
    ListKind,
    checked_entity,
    checked_entry,
    checked_role,
    find_role,
    with_entry,
    without_entry,
)
from localsim.rules.objects.buckets.bucket_access import owner_of_bucket
from localsim.rules.objects.storage_model import StorageError
from localsim.services.storage.service import Handler, StorageService
from localsim.services.storage.wire.access_resources import (
    Resource,
    bucket_entry,
    default_entry,
    entries_page,
    object_entry,
)
from localsim.services.storage.wire.json_requests import StorageCall, read_json_body
from localsim.services.storage.wire.resources import reply

Read = Callable[[StorageService, StorageCall], tuple[Any, AccessList]]
Change = Callable[[StorageService, StorageCall, ListEdit], tuple[Any, AccessList]]
"""Return what has the list, a bucket or an object, and the list."""


@dataclass(frozen=True, slots=True)
class ListMethods:
    """How one kind of list is read, changed and shown."""

    kind: ListKind
    page_kind: str
    read: Read
    change: Change
    owner: Callable[[StorageService, Any], str | None]
    """The entity that must stay an owner."""
    entry: Callable[[Any, str, AccessList, str], Resource]


BUCKETS = ListMethods(
    BUCKET_LIST,
    "storage#bucketAccessControls",
    lambda service, call: service.buckets.own_list(call.bucket, call.preconditions),
    lambda service, call, edit: service.buckets.change_own_list(
        call.bucket, edit, call.preconditions
    ),
    lambda _service, bucket: owner_of_bucket(bucket),
    bucket_entry,
)
DEFAULTS = ListMethods(
    DEFAULT_LIST,
    "storage#objectAccessControls",
    lambda service, call: service.buckets.default_list(call.bucket, call.preconditions),
    lambda service, call, edit: service.buckets.change_default_list(
        call.bucket, edit, call.preconditions
    ),
    lambda _service, _bucket: None,
    lambda bucket, entity, entries, _origin: default_entry(bucket, entity, entries),
)
OBJECTS = ListMethods(
    OBJECT_LIST,
    "storage#objectAccessControls",
    lambda service, call: service.objects.lists.read(call.key, call.preconditions),
    lambda service, call, edit: service.objects.lists.change(call.key, edit, call.preconditions),
    lambda service, stored: service.objects.lists.owner(stored),
    object_entry,
)


def list_entries(methods: ListMethods) -> Handler:
    """The method that shows a whole list."""

    async def answer(service: StorageService, call: StorageCall) -> web.StreamResponse:
        holder, entries = methods.read(service, call)
        items = [methods.entry(holder, entity, entries, call.origin) for entity in entries]
        return reply(call, entries_page(methods.page_kind, items))

    return answer


def get_entry(methods: ListMethods) -> Handler:
    """The method that shows the entry of one entity."""

    async def answer(service: StorageService, call: StorageCall) -> web.StreamResponse:
        holder, entries = methods.read(service, call)
        entity = _entity(call)
        find_role(entries, entity)
        return reply(call, methods.entry(holder, entity, entries, call.origin))

    return answer


def insert_entry(methods: ListMethods) -> Handler:
    """The method that gives an entity a role."""

    async def answer(service: StorageService, call: StorageCall) -> web.StreamResponse:
        resource = await read_json_body(call.request)
        entity, role = checked_entry(methods.kind, resource)
        return await _changed(methods, service, call, entity, with_entry(entity, role))

    return answer


def update_entry(methods: ListMethods) -> Handler:
    """The method that gives an entity which has an entry another role."""

    async def answer(service: StorageService, call: StorageCall) -> web.StreamResponse:
        resource = await read_json_body(call.request)
        entity, role = _entity(call), checked_role(methods.kind, resource)
        edit = with_entry(entity, role, must_exist=True)
        return await _changed(methods, service, call, entity, edit)

    return answer


def delete_entry(methods: ListMethods) -> Handler:
    """The method that removes the entry of an entity."""

    async def answer(service: StorageService, call: StorageCall) -> web.StreamResponse:
        def delete() -> None:
            holder, _ = methods.read(service, call)
            edit = without_entry(_entity(call), methods.owner(service, holder))
            methods.change(service, call, edit)

        await service.commit(delete)
        return web.Response(status=204)

    return answer


VERBS: Mapping[str, tuple[str, Callable[[ListMethods], Handler]]] = {
    "list": ("GET", list_entries),
    "insert": ("POST", insert_entry),
    "get": ("GET {entity}", get_entry),
    "patch": ("PATCH {entity}", update_entry),
    "update": ("PUT {entity}", update_entry),
    "delete": ("DELETE {entity}", delete_entry),
}
"""Method -> its verb, and whether the path names an entity, and who makes its handler."""

RESOURCES: Sequence[tuple[str, str, ListMethods]] = (
    ("storage.bucket_acl", "acl", BUCKETS),
    ("storage.default_object_acl", "defaultObjectAcl", DEFAULTS),
    ("storage.object_acl", "o/{object}/acl", OBJECTS),
)
"""The names of the resources in Google's retry tests, and their paths below a bucket's."""


async def _changed(
    methods: ListMethods, service: StorageService, call: StorageCall, entity: str, edit: ListEdit
) -> web.Response:
    holder, entries = await service.commit(methods.change, service, call, edit)
    return reply(call, methods.entry(holder, entity, entries, call.origin))


def _entity(call: StorageCall) -> str:
    """The entity in the path; one that no list can have is not found either."""
    try:
        return checked_entity(call.names["entity"])
    except StorageError as error:
        raise StorageError(404, "notFound", "The specified key does not exist.") from error


async def get_object_policy(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """The policy of an object, which is its list."""
    return reply(call, service.objects.lists.policy(call.key))


async def set_object_policy(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Replace the policy of an object; 412 when its etag is given and is not the present one."""
    given = await read_json_body(call.request)
    return reply(call, await service.commit(service.objects.lists.set_policy, call.key, given))
