"""The methods of the JSON API that are about a project: its HMAC keys and its service account."""

from typing import Any

from aiohttp import web

from localsim import accounts
from localsim.rules.objects.access.hmac_keys import HmacKey
from localsim.rules.objects.storage_model import invalid
from localsim.services.storage.resources.object_resources import Resource, reply, timestamp
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire import json_requests as requests
from localsim.services.storage.wire.json_errors import missing_parameter
from localsim.services.storage.wire.json_requests import StorageCall

_MOST_KEYS = 250
"""The largest page of keys, and the usual one."""


async def create_hmac_key(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Make a key for a service account; this reply alone has its secret."""
    email = requests.required_parameter(call.query, "serviceAccountEmail")
    key = await service.commit(service.hmac_keys.create, call.names["project"], email)
    resource = {
        "kind": "storage#hmacKey",
        "metadata": _metadata(key, call.origin),
        "secret": key.secret,
    }
    return reply(call, resource)


async def list_hmac_keys(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a project's keys."""
    limit = min(requests.page_limit(call.query), _MOST_KEYS)
    keys = service.hmac_keys.list(
        call.names["project"],
        email=call.query.get("serviceAccountEmail", ""),
        deleted=requests.flag_parameter(call.query, "showDeletedKeys"),
        start=requests.page_start(call.query)[0],
        limit=limit + 1,
    )
    page: dict[str, Any] = {"kind": "storage#hmacKeysMetadata"}
    if len(keys) > limit:
        page["nextPageToken"] = requests.page_token(keys[limit].access_id)
    if keys:
        page["items"] = [_metadata(key, call.origin) for key in keys[:limit]]
    return reply(call, page)


async def get_hmac_key(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe a key; nothing shows its secret."""
    key = service.hmac_keys.get(call.names["project"], call.names["access_id"])
    return reply(call, _metadata(key, call.origin))


async def update_hmac_key(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Switch a key on or off."""
    given = await requests.read_json_body(call.request)
    state, etag = given.get("state"), given.get("etag") or call.request.headers.get("If-Match", "")
    if state is None:
        raise missing_parameter("state")
    if not isinstance(state, str) or not isinstance(etag, str):
        raise invalid("state and etag must be strings.")
    update = service.hmac_keys.update
    project, access_id = call.names["project"], call.names["access_id"]
    return reply(
        call, _metadata(await service.commit(update, project, access_id, state, etag), call.origin)
    )


async def delete_hmac_key(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete a key that is switched off."""
    project, access_id = call.names["project"], call.names["access_id"]
    await service.commit(service.hmac_keys.delete, project, access_id)
    return web.Response(status=204)


async def get_service_account(_service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Tell the address of the account by which Cloud Storage acts for a project."""
    number = accounts.project_number(call.names["project"])
    resource = {
        "kind": "storage#serviceAccount",
        "email_address": accounts.storage_email(number),
    }
    return reply(call, resource)


def _metadata(key: HmacKey, origin: str) -> Resource:
    name = f"{key.project}/{key.access_id}"
    return {
        "kind": "storage#hmacKeyMetadata",
        "id": name,
        "selfLink": f"{origin}/storage/v1/projects/{key.project}/hmacKeys/{key.access_id}",
        "accessId": key.access_id,
        "projectId": key.project,
        "serviceAccountEmail": key.email,
        "state": key.state,
        "timeCreated": timestamp(key.created_s),
        "updated": timestamp(key.updated_s),
        "etag": key.etag,
    }
