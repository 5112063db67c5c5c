"""The table of the storage service: a row per method, an honest 501 for the rest.

Names, verbs and paths: the discovery document of the JSON API, v1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from localsim.rules.objects.storage_model import not_implemented
from localsim.services.storage.batch import PATH as BATCH
from localsim.services.storage.batch import answer_batch
from localsim.services.storage.methods import acl_methods as acl
from localsim.services.storage.methods import bucket_methods as buckets
from localsim.services.storage.methods import copy_methods as copies
from localsim.services.storage.methods import notification_methods as notifications
from localsim.services.storage.methods import object_methods as objects
from localsim.services.storage.methods import project_methods as projects
from localsim.services.storage.methods.downloads import download_object
from localsim.services.storage.methods.resumable import cancel_resumable, continue_resumable
from localsim.services.storage.service import Handler, StorageService
from localsim.services.storage.wire.json_requests import StorageCall

_NAME_IN_TEMPLATE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class StorageRoute:
    """A method with its name in the discovery document, its path and its handler."""

    name: str
    method: str
    pattern: re.Pattern[str]
    handler: Handler
    is_absent: bool = False
    """Whether only Google has the method."""


def _route(name: str, http: str, handler: Handler | None = None) -> StorageRoute:
    """A route; `{bucket}` in the path stands for one path segment, which may be empty.

    Without a handler it is a method that only Google has: it answers 501.
    """

    async def refuse(_service: StorageService, _call: StorageCall) -> web.StreamResponse:
        raise not_implemented(name)

    method, template = http.split(" ")
    pattern = _NAME_IN_TEMPLATE.sub(r"(?P<\1>[^/]*)", template)
    return StorageRoute(
        name, method, re.compile(pattern), handler or refuse, is_absent=handler is None
    )


def _list_path(path: str, verb: str) -> str:
    """Verb and path of a method of access control lists, which may name an entity."""
    method, _, entity = verb.partition(" ")
    return f"{method} {_BUCKET}/{path}" + (f"/{entity}" if entity else "")


_BUCKETS = "/storage/v1/b"
_BUCKET = f"{_BUCKETS}/{{bucket}}"
_CONFIGS = f"{_BUCKET}/notificationConfigs"
_CONFIG = f"{_CONFIGS}/{{notification}}"
_OBJECTS = f"{_BUCKET}/o"
_OBJECT = f"{_OBJECTS}/{{object}}"
_TARGET = "b/{to_bucket}/o/{to_object}"
_UPLOADS = "(?:/resumable)?/upload/storage/v1/b/{bucket}/o"
_PROJECT = "/storage/v1/projects/{project}"
_HMAC_KEYS = f"{_PROJECT}/hmacKeys"
_HMAC_KEY = f"{_HMAC_KEYS}/{{access_id}}"
_ANYTHING_BELOW = "(?:/.*)?"

_ABSENT_RESOURCES = {
    "storage.anywhereCaches": f"{_BUCKET}/anywhereCaches",
    "storage.buckets.operations": f"{_BUCKET}/operations",
    "storage.folders": f"{_BUCKET}/folders",
    "storage.managedFolders": f"{_BUCKET}/managedFolders",
}
"""Resources of which there is no method here."""

ROUTES = (
    _route("storage.buckets.list", f"GET {_BUCKETS}", buckets.list_buckets),
    _route("storage.buckets.insert", f"POST {_BUCKETS}", buckets.insert_bucket),
    _route("storage.buckets.get", f"GET {_BUCKET}", buckets.get_bucket),
    _route("storage.buckets.patch", f"PATCH {_BUCKET}", buckets.patch_bucket),
    _route("storage.buckets.update", f"PUT {_BUCKET}", buckets.update_bucket),
    _route("storage.buckets.delete", f"DELETE {_BUCKET}", buckets.delete_bucket),
    _route("storage.buckets.getIamPolicy", f"GET {_BUCKET}/iam", buckets.get_iam_policy),
    _route("storage.buckets.setIamPolicy", f"PUT {_BUCKET}/iam", buckets.set_iam_policy),
    _route(
        "storage.buckets.testIamPermissions",
        f"GET {_BUCKET}/iam/testPermissions",
        buckets.test_iam_permissions,
    ),
    _route(
        "storage.buckets.lockRetentionPolicy",
        f"POST {_BUCKET}/lockRetentionPolicy",
        buckets.lock_retention_policy,
    ),
    _route(
        "storage.buckets.getStorageLayout",
        f"GET {_BUCKET}/storageLayout",
        buckets.get_storage_layout,
    ),
    _route(
        "storage.managedFolders.list", f"GET {_BUCKET}/managedFolders", buckets.list_managed_folders
    ),
    _route("storage.notifications.list", f"GET {_CONFIGS}", notifications.list_notifications),
    _route("storage.notifications.insert", f"POST {_CONFIGS}", notifications.insert_notification),
    _route("storage.notifications.get", f"GET {_CONFIG}", notifications.get_notification),
    _route("storage.notifications.delete", f"DELETE {_CONFIG}", notifications.delete_notification),
    *(
        _route(f"{name}.{method}", _list_path(path, verb), make(methods))
        for name, path, methods in acl.RESOURCES
        for method, (verb, make) in acl.VERBS.items()
    ),
    _route("storage.objects.getIamPolicy", f"GET {_OBJECT}/iam", acl.get_object_policy),
    _route("storage.objects.setIamPolicy", f"PUT {_OBJECT}/iam", acl.set_object_policy),
    _route(
        "storage.objects.testIamPermissions",
        f"GET {_OBJECT}/iam/testPermissions",
        objects.test_iam_permissions,
    ),
    _route("storage.objects.list", f"GET {_OBJECTS}", objects.list_objects),
    _route("storage.objects.get", f"GET {_OBJECT}", objects.get_object),
    _route("storage.objects.get", f"GET /download{_OBJECT}", download_object),
    _route("storage.objects.patch", f"PATCH {_OBJECT}", objects.patch_object),
    _route("storage.objects.update", f"PUT {_OBJECT}", objects.update_object),
    _route("storage.objects.delete", f"DELETE {_OBJECT}", objects.delete_object),
    _route("storage.objects.insert", f"POST {_UPLOADS}", objects.insert_object),
    _route("storage.objects.insert", f"PUT {_UPLOADS}", continue_resumable),
    _route("storage.objects.insert", f"DELETE {_UPLOADS}", cancel_resumable),
    _route("storage.objects.compose", f"POST {_OBJECT}/compose", copies.compose_object),
    _route("storage.objects.copy", f"POST {_OBJECT}/copyTo/{_TARGET}", copies.copy_object),
    _route("storage.objects.rewrite", f"POST {_OBJECT}/rewriteTo/{_TARGET}", copies.rewrite_object),
    _route("storage.objects.move", f"POST {_OBJECT}/moveTo/o/{{to_object}}", copies.move_object),
    _route("storage.projects.hmacKeys.create", f"POST {_HMAC_KEYS}", projects.create_hmac_key),
    _route("storage.projects.hmacKeys.list", f"GET {_HMAC_KEYS}", projects.list_hmac_keys),
    _route("storage.projects.hmacKeys.get", f"GET {_HMAC_KEY}", projects.get_hmac_key),
    _route("storage.projects.hmacKeys.update", f"PUT {_HMAC_KEY}", projects.update_hmac_key),
    _route("storage.projects.hmacKeys.delete", f"DELETE {_HMAC_KEY}", projects.delete_hmac_key),
    _route(
        "storage.projects.serviceAccount.get",
        f"GET {_PROJECT}/serviceAccount",
        projects.get_service_account,
    ),
    _route("storage.batch", f"POST {BATCH}", answer_batch),
    _route("storage.buckets.restore", f"POST {_BUCKET}/restore"),
    _route("storage.buckets.relocate", f"POST {_BUCKET}/relocate"),
    _route("storage.objects.restore", f"POST {_OBJECT}/restore"),
    _route("storage.objects.bulkRestore", f"POST {_OBJECTS}/bulkRestore"),
    _route("storage.objects.watchAll", f"POST {_OBJECTS}/watch"),
    _route("storage.channels.stop", "POST /storage/v1/channels/stop"),
    *(
        _route(name, f"{verb} {path}{_ANYTHING_BELOW}")
        for verb in ("GET", "POST", "PUT", "PATCH", "DELETE")
        for name, path in _ABSENT_RESOURCES.items()
    ),
)

_BY_VERB: dict[str, list[StorageRoute]] = {}
for _row in ROUTES:
    _BY_VERB.setdefault(_row.method, []).append(_row)


def find_route(verb: str, raw_path: str) -> tuple[StorageRoute, Mapping[str, str]] | None:
    """The method that a request calls, and the still percent-encoded names in its path.

    A HEAD is a GET without body.
    """
    for row in _BY_VERB.get("GET" if verb == "HEAD" else verb, ()):
        match = row.pattern.fullmatch(raw_path)
        if match is not None:
            return row, match.groupdict()
    return None
