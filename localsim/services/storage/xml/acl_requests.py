"""The subresources `acl` and `defaultObjectAcl` of the XML API."""

from collections.abc import Callable

from aiohttp import web

from localsim.rules.objects.access.access_lists import AccessList
from localsim.rules.objects.buckets.bucket_access import PredefinedLists, owner_of_bucket
from localsim.rules.objects.properties import PREDEFINED_ACL
from localsim.services.storage.methods.acl_methods import BUCKETS, DEFAULTS, OBJECTS, ListMethods
from localsim.services.storage.service import Handler, StorageService
from localsim.services.storage.wire.json_requests import MAX_JSON_BYTES, StorageCall, read_all
from localsim.services.storage.xml.acl_documents import (
    ROOT,
    list_tree,
    malformed_list,
    parsed_list,
)
from localsim.services.storage.xml.documents import xml_response
from localsim.services.storage.xml.xml_requests import predefined_name

Predefine = Callable[[StorageService, StorageCall, str], object]
"""Puts a predefined list, by the name that the JSON API has for it, in the place of any other."""


def _reading(methods: ListMethods) -> Handler:
    async def answer(service: StorageService, call: StorageCall) -> web.StreamResponse:
        holder, entries = methods.read(service, call)
        owner = methods.owner(service, holder) or owner_of_bucket(holder)
        return xml_response(ROOT, list_tree(owner, entries))

    return answer


def _replacing(methods: ListMethods, predefine: Predefine) -> Handler:
    async def answer(service: StorageService, call: StorageCall) -> web.StreamResponse:
        data = await read_all(call.chunks(), MAX_JSON_BYTES, malformed_list())
        name = predefined_name(call.request.headers)
        if name is not None:
            await service.commit(predefine, service, call, name)
        else:

            def edit(before: AccessList) -> AccessList:
                return parsed_list(methods.kind, data, before)

            await service.commit(methods.change, service, call, edit)
        return web.Response()

    return answer


def _predefine_own(service: StorageService, call: StorageCall, name: str) -> None:
    service.buckets.patch(call.bucket, {}, call.preconditions, PredefinedLists(own=name))


def _predefine_default(service: StorageService, call: StorageCall, name: str) -> None:
    service.buckets.patch(call.bucket, {}, call.preconditions, PredefinedLists(default=name))


def _predefine_object(service: StorageService, call: StorageCall, name: str) -> None:
    service.objects.patch(call.key, {PREDEFINED_ACL: name}, call.preconditions)


get_bucket_list, put_bucket_list = _reading(BUCKETS), _replacing(BUCKETS, _predefine_own)
get_default_list, put_default_list = _reading(DEFAULTS), _replacing(DEFAULTS, _predefine_default)
get_object_list, put_object_list = _reading(OBJECTS), _replacing(OBJECTS, _predefine_object)
