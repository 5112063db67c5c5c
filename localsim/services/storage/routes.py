"""The table of the storage service: a row per method, an honest 501 for the rest.

Names, verbs and paths: the discovery document of the JSON API, v1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from localsim.cloud.objects.storage_model import not_implemented
from localsim.services.storage.batch import PATH as BATCH
from localsim.services.storage.batch import answer_batch
from localsim.services.storage.methods.bucket_methods import (
    delete_bucket,
    get_bucket,
    get_iam_policy,
    get_storage_layout,
    insert_bucket,
    list_buckets,
    list_managed_folders,
    lock_retention_policy,
    patch_bucket,
    set_iam_policy,
    test_iam_permissions,
    update_bucket,
)
from localsim.services.storage.methods.copy_methods import (
    compose_object,
    copy_object,
    move_object,
    rewrite_object,
)
from localsim.services.storage.methods.downloads import download_object
from localsim.services.storage.methods.object_methods import (
    delete_object,
    get_object,
    insert_object,
    list_objects,
    patch_object,
    update_object,
)
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

    def match(self, raw_path: str) -> Mapping[str, str] | None:
        """The still percent-encoded names in a path, or None for another method's path."""
        found = self.pattern.fullmatch(raw_path)
        return None if found is None else found.groupdict()


def make_route(name: str, method: str, template: str, handler: Handler) -> StorageRoute:
    """A route; `{bucket}` in the template stands for one path segment, which may be empty."""
    pattern = _NAME_IN_TEMPLATE.sub(r"(?P<\1>[^/]*)", template)
    return StorageRoute(name, method, re.compile(pattern), handler)


def make_unsupported_route(name: str, method: str, template: str) -> StorageRoute:
    """A route for a method that only Google has: it answers 501."""

    async def refuse(_service: StorageService, _call: StorageCall) -> web.StreamResponse:
        raise not_implemented(name)

    return make_route(name, method, template, refuse)


_BUCKETS = "/storage/v1/b"
_BUCKET = f"{_BUCKETS}/{{bucket}}"
_OBJECTS = f"{_BUCKET}/o"
_OBJECT = f"{_OBJECTS}/{{object}}"
_TARGET = "b/{to_bucket}/o/{to_object}"
_UPLOADS = "(?:/resumable)?/upload/storage/v1/b/{bucket}/o"
_PROJECT = "/storage/v1/projects/{project}"
_ANYTHING_BELOW = "(?:/.*)?"

_ABSENT_RESOURCES = {
    "storage.anywhereCaches": f"{_BUCKET}/anywhereCaches",
    "storage.bucketAccessControls": f"{_BUCKET}/acl",
    "storage.buckets.operations": f"{_BUCKET}/operations",
    "storage.defaultObjectAccessControls": f"{_BUCKET}/defaultObjectAcl",
    "storage.folders": f"{_BUCKET}/folders",
    "storage.managedFolders": f"{_BUCKET}/managedFolders",
    "storage.notifications": f"{_BUCKET}/notificationConfigs",
    "storage.objectAccessControls": f"{_OBJECT}/acl",
    "storage.projects.hmacKeys": f"{_PROJECT}/hmacKeys",
}
"""Resources of which there is no method here."""

ROUTES = (
    make_route("storage.buckets.list", "GET", _BUCKETS, list_buckets),
    make_route("storage.buckets.insert", "POST", _BUCKETS, insert_bucket),
    make_route("storage.buckets.get", "GET", _BUCKET, get_bucket),
    make_route("storage.buckets.patch", "PATCH", _BUCKET, patch_bucket),
    make_route("storage.buckets.update", "PUT", _BUCKET, update_bucket),
    make_route("storage.buckets.delete", "DELETE", _BUCKET, delete_bucket),
    make_route("storage.buckets.getIamPolicy", "GET", f"{_BUCKET}/iam", get_iam_policy),
    make_route("storage.buckets.setIamPolicy", "PUT", f"{_BUCKET}/iam", set_iam_policy),
    make_route(
        "storage.buckets.testIamPermissions",
        "GET",
        f"{_BUCKET}/iam/testPermissions",
        test_iam_permissions,
    ),
    make_route(
        "storage.buckets.lockRetentionPolicy",
        "POST",
        f"{_BUCKET}/lockRetentionPolicy",
        lock_retention_policy,
    ),
    make_route(
        "storage.buckets.getStorageLayout", "GET", f"{_BUCKET}/storageLayout", get_storage_layout
    ),
    make_route(
        "storage.managedFolders.list", "GET", f"{_BUCKET}/managedFolders", list_managed_folders
    ),
    make_route("storage.objects.list", "GET", _OBJECTS, list_objects),
    make_route("storage.objects.get", "GET", _OBJECT, get_object),
    make_route("storage.objects.get", "GET", f"/download{_OBJECT}", download_object),
    make_route("storage.objects.patch", "PATCH", _OBJECT, patch_object),
    make_route("storage.objects.update", "PUT", _OBJECT, update_object),
    make_route("storage.objects.delete", "DELETE", _OBJECT, delete_object),
    make_route("storage.objects.insert", "POST", _UPLOADS, insert_object),
    make_route("storage.objects.insert", "PUT", _UPLOADS, continue_resumable),
    make_route("storage.objects.insert", "DELETE", _UPLOADS, cancel_resumable),
    make_route("storage.objects.compose", "POST", f"{_OBJECT}/compose", compose_object),
    make_route("storage.objects.copy", "POST", f"{_OBJECT}/copyTo/{_TARGET}", copy_object),
    make_route("storage.objects.rewrite", "POST", f"{_OBJECT}/rewriteTo/{_TARGET}", rewrite_object),
    make_route("storage.objects.move", "POST", f"{_OBJECT}/moveTo/o/{{to_object}}", move_object),
    make_route("storage.batch", "POST", BATCH, answer_batch),
    make_unsupported_route("storage.buckets.restore", "POST", f"{_BUCKET}/restore"),
    make_unsupported_route("storage.buckets.relocate", "POST", f"{_BUCKET}/relocate"),
    make_unsupported_route("storage.objects.restore", "POST", f"{_OBJECT}/restore"),
    make_unsupported_route("storage.objects.bulkRestore", "POST", f"{_OBJECTS}/bulkRestore"),
    make_unsupported_route("storage.objects.watchAll", "POST", f"{_OBJECTS}/watch"),
    make_unsupported_route("storage.objects.getIamPolicy", "GET", f"{_OBJECT}/iam"),
    make_unsupported_route("storage.objects.setIamPolicy", "PUT", f"{_OBJECT}/iam"),
    make_unsupported_route(
        "storage.objects.testIamPermissions", "GET", f"{_OBJECT}/iam/testPermissions"
    ),
    make_unsupported_route("storage.channels.stop", "POST", "/storage/v1/channels/stop"),
    make_unsupported_route(
        "storage.projects.serviceAccount.get", "GET", f"{_PROJECT}/serviceAccount"
    ),
    *(
        make_unsupported_route(name, verb, f"{path}{_ANYTHING_BELOW}")
        for verb in ("GET", "POST", "PUT", "PATCH", "DELETE")
        for name, path in _ABSENT_RESOURCES.items()
    ),
)

_BY_VERB: dict[str, list[StorageRoute]] = {}
for _row in ROUTES:
    _BY_VERB.setdefault(_row.method, []).append(_row)


def find_route(verb: str, raw_path: str) -> tuple[StorageRoute, Mapping[str, str]] | None:
    """The method that a request calls, and the names in its path; a HEAD is a GET without body."""
    for row in _BY_VERB.get("GET" if verb == "HEAD" else verb, ()):
        names = row.match(raw_path)
        if names is not None:
            return row, names
    return None
