"""Folders, managed folders and operations as resources of the JSON API."""

from collections.abc import Callable
from urllib.parse import quote

from localsim.rules.objects.folders.bucket_operations import BucketOperation
from localsim.rules.objects.folders.folder_records import FolderPage, FolderRecord
from localsim.services.storage.wire.json_requests import page_token
from localsim.services.storage.wire.resources import Resource, timestamp

_ORIGIN = "https://www.googleapis.com/storage/v1/b"
"""In the links of these resources, whatever host the client used."""
TYPES = "type.googleapis.com/google.storage.control.v2"
METADATA = {
    "rename-folder": "RenameFolderMetadata",
    "delete-folder-recursive": "DeleteFolderRecursiveMetadata",
}
"""The message that describes an operation of a kind."""


def folder_resource(folder: FolderRecord) -> Resource:
    """A folder as storage#folder."""
    return _resource(folder, "storage#folder", "folders")


def managed_folder_resource(folder: FolderRecord) -> Resource:
    """A managed folder as storage#managedFolder."""
    return _resource(folder, "storage#managedFolder", "managedFolders")


def folder_list_resource(
    page: FolderPage, kind: str, resource_of: Callable[[FolderRecord], Resource]
) -> Resource:
    """A page of folders; an empty one has no items at all."""
    resource: Resource = {"kind": kind}
    if page.next_start is not None:
        resource["nextPageToken"] = page_token(page.next_start)
    if page.folders:
        resource["items"] = [resource_of(folder) for folder in page.folders]
    return resource


def operation_resource(operation: BucketOperation) -> Resource:
    """An operation as storage#operation; its response is a folder of the control API."""
    path = f"{operation.bucket}/operations/{operation.id}"
    resource: Resource = {
        "kind": "storage#operation",
        "name": f"projects/_/buckets/{path}",
        "selfLink": f"{_ORIGIN}/{path}",
        "done": True,
        "metadata": _metadata(operation),
        "response": {"@type": "type.googleapis.com/google.protobuf.Empty"},
    }
    if operation.result is not None:
        resource["response"] = {
            "@type": f"{TYPES}.Folder",
            "name": f"projects/_/buckets/{operation.bucket}/folders/{operation.result.name}",
            "metageneration": str(operation.result.metageneration),
            "createTime": timestamp(operation.result.created_s),
            "updateTime": timestamp(operation.result.updated_s),
        }
    return resource


def _metadata(operation: BucketOperation) -> Resource:
    ids = {"folderId": operation.source}
    if operation.destination:
        ids = {"sourceFolderId": operation.source, "destinationFolderId": operation.destination}
    return {
        "@type": f"{TYPES}.{METADATA[operation.kind]}",
        "commonMetadata": {
            "createTime": timestamp(operation.began_s),
            "endTime": timestamp(operation.ended_s),
            "updateTime": timestamp(operation.ended_s),
            "type": operation.kind,
            "requestedCancellation": False,
            "progressPercent": 100,
        },
        **ids,
    }


def _resource(folder: FolderRecord, kind: str, collection: str) -> Resource:
    name = quote(folder.name, safe="")
    return {
        "kind": kind,
        "id": f"{folder.bucket}/{folder.name}",
        "selfLink": f"{_ORIGIN}/{folder.bucket}/{collection}/{name}",
        "name": folder.name,
        "bucket": folder.bucket,
        "metageneration": str(folder.metageneration),
        "createTime": timestamp(folder.created_s),
        "updateTime": timestamp(folder.updated_s),
    }
