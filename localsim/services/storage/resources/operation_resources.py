"""The long-running operations of a bucket as resources of the JSON API."""

from collections.abc import Mapping
from typing import Any

from localsim.rules.objects.buckets.bucket_operations import BucketOperation
from localsim.rules.objects.folders.folder_changes import (
    DELETE_RECURSIVE,
    RENAME,
    FolderChange,
    folder_change,
)
from localsim.services.storage.resources.object_resources import Resource, timestamp

MESSAGES: Mapping[str, str] = {
    RENAME: "RenameFolderMetadata",
    DELETE_RECURSIVE: "DeleteFolderRecursiveMetadata",
}
"""The message of the control API that describes an operation on a folder."""
_ORIGIN = "https://www.googleapis.com/storage/v1/b"
"""In the links of operations, whatever host the client used."""
_TYPES = "type.googleapis.com/google.storage.control.v2"


def operation_resource(operation: BucketOperation) -> Resource:
    """An operation as storage#operation; that one of a bulk restore looks so is assumed."""
    path = f"{operation.bucket}/operations/{operation.id}"
    change = folder_change(operation)
    told = dict(operation.details) if change is None else _told(operation.kind, change)
    return {
        "kind": "storage#operation",
        "name": f"projects/_/buckets/{path}",
        "selfLink": f"{_ORIGIN}/{path}",
        "done": True,
        "metadata": {"commonMetadata": _common(operation), **told},
        "response": {} if change is None else _result(operation.bucket, change),
    }


def _common(operation: BucketOperation) -> Mapping[str, Any]:
    return {
        "createTime": timestamp(operation.began_s),
        "endTime": timestamp(operation.ended_s),
        "updateTime": timestamp(operation.ended_s),
        "type": operation.kind,
        "requestedCancellation": False,
        "progressPercent": 100,
    }


def _told(kind: str, change: FolderChange) -> Resource:
    names = {"folderId": change.source}
    if change.result is not None:
        names = {"sourceFolderId": change.source, "destinationFolderId": change.result.name}
    return {"@type": f"{_TYPES}.{MESSAGES[kind]}", **names}


def _result(bucket: str, change: FolderChange) -> Resource:
    """A folder of the control API, or nothing."""
    folder = change.result
    if folder is None:
        return {"@type": "type.googleapis.com/google.protobuf.Empty"}
    return {
        "@type": f"{_TYPES}.Folder",
        "name": f"projects/_/buckets/{bucket}/folders/{folder.name}",
        "metageneration": str(folder.metageneration),
        "createTime": timestamp(folder.created_s),
        "updateTime": timestamp(folder.updated_s),
    }
