"""The table of the storage service: a row per method, an honest 501 for the rest.

Names, verbs and paths: the discovery document of the JSON API, v1.
"""

from collections.abc import Mapping

from localsim.services.storage.batch import PATH as BATCH
from localsim.services.storage.batch import batch
from localsim.services.storage.methods.bucket_access import (
    get_iam_policy,
    get_storage_layout,
    list_managed_folders,
    set_iam_policy,
    test_iam_permissions,
)
from localsim.services.storage.methods.buckets import (
    delete_bucket,
    get_bucket,
    insert_bucket,
    list_buckets,
    lock_retention_policy,
    patch_bucket,
    update_bucket,
)
from localsim.services.storage.methods.copies import (
    compose_object,
    copy_object,
    move_object,
    rewrite_object,
)
from localsim.services.storage.methods.downloads import download
from localsim.services.storage.methods.objects import (
    delete_object,
    get_object,
    insert_object,
    list_objects,
    patch_object,
    update_object,
)
from localsim.services.storage.methods.resumable import cancel_resumable, continue_resumable
from localsim.services.storage.route import Route, absent, route

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
    route("storage.buckets.list", "GET", _BUCKETS, list_buckets),
    route("storage.buckets.insert", "POST", _BUCKETS, insert_bucket),
    route("storage.buckets.get", "GET", _BUCKET, get_bucket),
    route("storage.buckets.patch", "PATCH", _BUCKET, patch_bucket),
    route("storage.buckets.update", "PUT", _BUCKET, update_bucket),
    route("storage.buckets.delete", "DELETE", _BUCKET, delete_bucket),
    route("storage.buckets.getIamPolicy", "GET", f"{_BUCKET}/iam", get_iam_policy),
    route("storage.buckets.setIamPolicy", "PUT", f"{_BUCKET}/iam", set_iam_policy),
    route(
        "storage.buckets.testIamPermissions",
        "GET",
        f"{_BUCKET}/iam/testPermissions",
        test_iam_permissions,
    ),
    route(
        "storage.buckets.lockRetentionPolicy",
        "POST",
        f"{_BUCKET}/lockRetentionPolicy",
        lock_retention_policy,
    ),
    route(
        "storage.buckets.getStorageLayout", "GET", f"{_BUCKET}/storageLayout", get_storage_layout
    ),
    route("storage.managedFolders.list", "GET", f"{_BUCKET}/managedFolders", list_managed_folders),
    route("storage.objects.list", "GET", _OBJECTS, list_objects),
    route("storage.objects.get", "GET", _OBJECT, get_object),
    route("storage.objects.get", "GET", f"/download{_OBJECT}", download),
    route("storage.objects.patch", "PATCH", _OBJECT, patch_object),
    route("storage.objects.update", "PUT", _OBJECT, update_object),
    route("storage.objects.delete", "DELETE", _OBJECT, delete_object),
    route("storage.objects.insert", "POST", _UPLOADS, insert_object),
    route("storage.objects.insert", "PUT", _UPLOADS, continue_resumable),
    route("storage.objects.insert", "DELETE", _UPLOADS, cancel_resumable),
    route("storage.objects.compose", "POST", f"{_OBJECT}/compose", compose_object),
    route("storage.objects.copy", "POST", f"{_OBJECT}/copyTo/{_TARGET}", copy_object),
    route("storage.objects.rewrite", "POST", f"{_OBJECT}/rewriteTo/{_TARGET}", rewrite_object),
    route("storage.objects.move", "POST", f"{_OBJECT}/moveTo/o/{{to_object}}", move_object),
    route("storage.batch", "POST", BATCH, batch),
    absent("storage.buckets.restore", "POST", f"{_BUCKET}/restore"),
    absent("storage.buckets.relocate", "POST", f"{_BUCKET}/relocate"),
    absent("storage.objects.restore", "POST", f"{_OBJECT}/restore"),
    absent("storage.objects.bulkRestore", "POST", f"{_OBJECTS}/bulkRestore"),
    absent("storage.objects.watchAll", "POST", f"{_OBJECTS}/watch"),
    absent("storage.objects.getIamPolicy", "GET", f"{_OBJECT}/iam"),
    absent("storage.objects.setIamPolicy", "PUT", f"{_OBJECT}/iam"),
    absent("storage.objects.testIamPermissions", "GET", f"{_OBJECT}/iam/testPermissions"),
    absent("storage.channels.stop", "POST", "/storage/v1/channels/stop"),
    absent("storage.projects.serviceAccount.get", "GET", f"{_PROJECT}/serviceAccount"),
    *(
        absent(name, verb, f"{path}{_ANYTHING_BELOW}")
        for verb in ("GET", "POST", "PUT", "PATCH", "DELETE")
        for name, path in _ABSENT_RESOURCES.items()
    ),
)

_BY_VERB: dict[str, list[Route]] = {}
for _row in ROUTES:
    _BY_VERB.setdefault(_row.method, []).append(_row)


def find(verb: str, raw_path: str) -> tuple[Route, Mapping[str, str]] | None:
    """The method that a request calls, and the names in its path; a HEAD is a GET without body."""
    for row in _BY_VERB.get("GET" if verb == "HEAD" else verb, ()):
        names = row.match(raw_path)
        if names is not None:
            return row, names
    return None
