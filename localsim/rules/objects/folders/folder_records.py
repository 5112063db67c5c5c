"""Folders as stored, and the refusals that both kinds of them share."""

from dataclasses import dataclass, field
from typing import Any

from localsim.rules.objects.storage_model import (
    Preconditions,
    StorageError,
    invalid,
    precondition_failed,
)

MAX_FOLDER_PAGE = 1000


class FolderConflict(StorageError):
    """A refusal with 409 because of the state of a folder or its bucket.

    gRPC has FAILED_PRECONDITION for it, and ALREADY_EXISTS for what is there already.
    """

    def __init__(self, message: str) -> None:
        super().__init__(409, "conflict", message)


@dataclass(frozen=True, slots=True)
class FolderRecord:
    """A folder, or a managed folder: a name with a slash at its end."""

    bucket: str
    name: str
    metageneration: int
    created_s: float
    updated_s: float


@dataclass(frozen=True, slots=True)
class FolderQuery:
    """Which folders to list: from `start` on, before `end`, at most `limit`.

    With `is_one_level` only the folder that is the prefix, and those right in it.
    """

    prefix: str = ""
    start: str = ""
    end: str = ""
    limit: int = MAX_FOLDER_PAGE
    is_one_level: bool = False


@dataclass(frozen=True, slots=True)
class FolderPage:
    """One page; `next_start` is where the next one begins, None after the last."""

    folders: list[FolderRecord] = field(default_factory=list)
    next_start: str | None = None


def page_of(rows: list[tuple[Any, ...]], limit: int) -> FolderPage:
    """The page of rows, of which one more than `limit` may have been read."""
    records = [FolderRecord(*row) for row in rows]
    return FolderPage(records[:limit], records[limit].name if len(records) > limit else None)


def check_preconditions(record: FolderRecord, preconditions: Preconditions) -> None:
    """Raise 412, or 304 where the metageneration is the one that is not wanted."""
    if preconditions.metageneration_match not in (None, record.metageneration):
        raise precondition_failed()
    if preconditions.metageneration_not_match == record.metageneration:
        raise precondition_failed(code=304)


def check_prefix(prefix: str) -> None:
    """Raise 400 for a prefix of folders that is not itself the name of one."""
    if prefix and not prefix.endswith("/"):
        raise invalid("The prefix must either be empty or end with a '/'.")
