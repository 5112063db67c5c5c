"""The methods of Cloud Storage over gRPC, and the permission that each asks for.

Loaded where callers are authorized: it knows no message, so that it costs nothing.
"""

from collections.abc import Mapping
from urllib.parse import unquote

CONTROL = "google.storage.control.v2.StorageControl"
OBJECTS = "google.storage.v2.Storage"
OPERATIONS = "google.longrunning.Operations"
ROUTING = "x-goog-request-params"
_BUCKETS = "/buckets/"

_CONTROL = {
    "CreateFolder": "storage.folders.create",
    "GetFolder": "storage.folders.get",
    "ListFolders": "storage.folders.list",
    "DeleteFolder": "storage.folders.delete",
    "DeleteFolderRecursive": "storage.folders.delete",
    "RenameFolder": "storage.folders.rename",
    "GetStorageLayout": "storage.objects.list",
    "CreateManagedFolder": "storage.managedFolders.create",
    "GetManagedFolder": "storage.managedFolders.get",
    "ListManagedFolders": "storage.managedFolders.list",
    "DeleteManagedFolder": "storage.managedFolders.delete",
}
_OBJECTS = {
    "GetBucket": "storage.buckets.get",
    "ListBuckets": "storage.buckets.list",
    "CreateBucket": "storage.buckets.create",
    "DeleteBucket": "storage.buckets.delete",
    "LockBucketRetentionPolicy": "storage.buckets.update",
    "GetObject": "storage.objects.get",
    "ReadObject": "storage.objects.get",
    "BidiReadObject": "storage.objects.get",
    "ListObjects": "storage.objects.list",
    "WriteObject": "storage.objects.create",
    "BidiWriteObject": "storage.objects.create",
    "StartResumableWrite": "storage.objects.create",
    "QueryWriteStatus": "storage.objects.create",
    "CancelResumableWrite": "storage.objects.create",
    "DeleteObject": "storage.objects.delete",
    "UpdateObject": "storage.objects.update",
    "ComposeObject": "storage.objects.create",
    "RewriteObject": "storage.objects.create",
    "MoveObject": "storage.objects.move",
}
PERMISSIONS: Mapping[str, str] = {
    **{f"{CONTROL}.{name}": permission for name, permission in _CONTROL.items()},
    **{f"{OBJECTS}.{name}": permission for name, permission in _OBJECTS.items()},
}
"""By the full name of a method."""
OPERATION_PERMISSIONS: Mapping[str, str] = {
    f"{OPERATIONS}.GetOperation": "storage.bucketOperations.get",
    f"{OPERATIONS}.ListOperations": "storage.bucketOperations.list",
    f"{OPERATIONS}.CancelOperation": "storage.bucketOperations.cancel",
}
"""Of those methods that other services have too: they are Cloud Storage's for a bucket's name."""


def permission_of(method: str, bucket: str) -> str | None:
    """What a call of a method asks for; None for a method that is not Cloud Storage's.

    `bucket` is the one that the call is routed by, if any.
    """
    return PERMISSIONS.get(method) or (OPERATION_PERMISSIONS.get(method) if bucket else None)


def routed_bucket(header: object) -> str:
    """The bucket that a call names for its routing, such as `bucket=projects/_/buckets/box`."""
    pairs = header.split("&") if isinstance(header, str) else ()
    for pair in pairs:
        value = unquote(pair.partition("=")[2])
        if value.startswith("projects/") and _BUCKETS in value:
            return value.partition(_BUCKETS)[2].partition("/")[0]
    return ""
