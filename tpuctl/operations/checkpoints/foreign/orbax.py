"""Steps that Orbax wrote (read of 0.12.8: _src/path/atomicity.py, _src/metadata/).

    <step>/_CHECKPOINT_METADATA   when the save began and when it ended, and the items
    <step>/<item>/_METADATA       the names of an item's arrays; the step itself may be the item
    <step>/<item>/manifest.ocdbt  the database with the arrays; else a zarr folder for each
    <step>/commit_success.txt     written last, since 0.12.3 in a directory too

In a bucket a step is written under its own name, and the marker decides. In a directory it is
written as `<step>.orbax-checkpoint-tmp` (earlier versions append a time) and renamed at the end.
"""

from collections.abc import Mapping
from typing import Any

from tpuctl.errors import IntegrityError
from tpuctl.operations.checkpoints.foreign.step_folder import FolderStatus, StepFolder
from tpuctl.operations.checkpoints.step_view import StepState
from tpuctl.store import Entry

MARKER = "commit_success.txt"
TEMPORARY = ".orbax-checkpoint-tmp"
STEP_METADATA = "_CHECKPOINT_METADATA"
TREE_METADATA = "_METADATA"
DATABASE = "manifest.ocdbt"
MAY_GROW = False
_EVIDENCE = frozenset({MARKER, STEP_METADATA, TREE_METADATA, "orbax.checkpoint"})
_READ_FIRST = ("", TREE_METADATA, DATABASE, MARKER)
_HANDLERS_OF_TREES = ("PyTreeHandler", "PyTreeCheckpointHandler", "StandardCheckpointHandler")


def recognises(name: str, files: Mapping[str, Entry]) -> bool:
    """Whether Orbax wrote a folder as a step; the folder above its steps is none."""
    if TEMPORARY in name or not _EVIDENCE.isdisjoint(files):
        return True
    below = {path.partition("/")[2] for path in files}
    return TREE_METADATA in below and STEP_METADATA not in below


def read_status(folder: StepFolder) -> FolderStatus:
    """The state of a step by Orbax's markers and metadata."""
    if TEMPORARY in folder.name:
        return FolderStatus(StepState.PARTIAL, reason="it was not renamed: its save has not ended")
    if STEP_METADATA not in folder.files:
        return _status_by_marker(folder, {})
    return _status_by_marker(folder, folder.json(STEP_METADATA))


def items(folder: StepFolder) -> list[str]:
    """The folders of a step's trees, each with a slash at its end; "" for the step itself."""
    return sorted(
        path.removesuffix(TREE_METADATA)
        for path in folder.files
        if path == TREE_METADATA or path.endswith(f"/{TREE_METADATA}")
    )


def deletion_rank(path: str) -> int:
    """The order of a file in a deletion, the lowest first.

    The marker goes first, then what every restore reads; what names the items goes last.
    """
    if path in (MARKER, STEP_METADATA):
        return 0 if path == MARKER else len(_READ_FIRST) + 1
    last = path.rpartition("/")[2]
    return _READ_FIRST.index(last) if last in _READ_FIRST else len(_READ_FIRST)


def _status_by_marker(folder: StepFolder, metadata: dict[str, Any]) -> FolderStatus:
    began, ended = (
        _seconds(folder, metadata, f"{each}_timestamp_nsecs") for each in ("init", "commit")
    )
    marked = folder.files.get(MARKER)
    if marked is None and (folder.is_in_bucket or (metadata and ended is None)):
        return FolderStatus(
            StepState.PARTIAL, reason=f"there is no {MARKER}: its save has not ended"
        )
    marker = None if marked is None else MARKER
    if (missing := _missing_file(folder, metadata)) is not None:
        return FolderStatus(StepState.CORRUPT, marker, f"{folder.prefix}{missing}: missing")
    newest_s = max(each.updated_s for each in folder.files.values())
    return FolderStatus(
        StepState.UNSEALED,
        marker,
        committed_s=ended or (newest_s if marked is None else marked.updated_s),
        save_s=None if began is None or ended is None else max(0.0, ended - began),
    )


def _missing_file(folder: StepFolder, metadata: dict[str, Any]) -> str | None:
    """A file without which no restore can succeed, named by the step itself."""
    handlers = metadata.get("item_handlers")
    named = handlers if isinstance(handlers, dict) else {"": handlers}
    for item, handler in sorted(named.items()):
        prefix = f"{item}/" if item else ""
        if str(handler).rpartition(".")[2] in _HANDLERS_OF_TREES:
            if prefix + TREE_METADATA not in folder.files:
                return prefix + TREE_METADATA
        elif not any(path.startswith(prefix) for path in folder.files):
            return prefix
    return next((path for path in _databases(folder) if path not in folder.files), None)


def _databases(folder: StepFolder) -> list[str]:
    """The manifest of each item that has parts of a database."""
    return [
        f"{item}{DATABASE}"
        for item in items(folder)
        if any(path.startswith((f"{item}ocdbt.", f"{item}d/")) for path in folder.files)
    ]


def _seconds(folder: StepFolder, metadata: dict[str, Any], field: str) -> float | None:
    value = metadata.get(field)
    if value is None:
        return None
    if not isinstance(value, int):
        raise IntegrityError(f"{folder.prefix}{STEP_METADATA}: {field} is not a number")
    return value / 1e9
