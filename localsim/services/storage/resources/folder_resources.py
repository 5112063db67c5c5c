"""Folders and managed folders as resources of the JSON API."""

from collections.abc import Callable
from urllib.parse import quote

from localsim.rules.objects.folders.folder_records import FolderPage, FolderRecord
from localsim.services.storage.resources.object_resources import Resource, timestamp
from localsim.services.storage.wire.json_requests import page_token

_ORIGIN = "https://www.googleapis.com/storage/v1/b"
"""In the links of these resources, whatever host the client used."""


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
