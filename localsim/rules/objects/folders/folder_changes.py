"""What the operations on folders did, as the rows of operations keep it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localsim.rules.objects.buckets.bucket_operations import BucketOperation
from localsim.rules.objects.folders.folder_records import FolderRecord

RENAME = "rename-folder"
DELETE_RECURSIVE = "delete-folder-recursive"


@dataclass(frozen=True, slots=True)
class FolderChange:
    """The names of a folder before and after; `result` is None where it was deleted."""

    source: str
    result: FolderRecord | None


def change_details(source: FolderRecord, result: FolderRecord | None) -> Mapping[str, Any]:
    """The details of an operation on a folder."""
    kept = result and [result.name, result.metageneration, result.created_s, result.updated_s]
    return {"source": source.name, "result": kept}


def folder_change(operation: BucketOperation) -> FolderChange | None:
    """What an operation did to a folder; None for one that is not about folders."""
    if operation.kind not in (RENAME, DELETE_RECURSIVE):
        return None
    kept = operation.details["result"]
    result = None if kept is None else FolderRecord(operation.bucket, *kept)
    return FolderChange(operation.details["source"], result)
