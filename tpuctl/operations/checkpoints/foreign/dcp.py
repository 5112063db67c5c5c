"""Steps of PyTorch's Distributed Checkpoint (read of 2.13: distributed/checkpoint/filesystem.py).

    <step>/__<rank>_<n>.distcp   tensors and other objects, each pickled
    <step>/.metadata             what lies where, pickled: written last by rank 0
    <step>/__<rank>.metadata     the same where each rank writes its own

Both are pickles, which can run any program when they are read. So they never are: a step is known
by its names, and its bytes by its seal.
"""

import re
from collections.abc import Mapping

from tpuctl.operations.checkpoints.foreign.step_folder import FolderStatus, StepFolder
from tpuctl.operations.checkpoints.step_view import StepState
from tpuctl.store import Entry

MARKER = ".metadata"
MAY_GROW = False
NOT_OPENED = ".metadata is a pickle, which could run any program: it is not opened"

_DATA = re.compile(r"__(\d+)_\d+\.distcp")
_MARKER_OF_RANK = re.compile(r"__(\d+)\.metadata")


def recognises(_name: str, files: Mapping[str, Entry]) -> bool:
    """Whether DCP wrote a folder, given its name and its files."""
    return any(
        path == MARKER or _DATA.fullmatch(path) or _MARKER_OF_RANK.fullmatch(path) for path in files
    )


def read_status(folder: StepFolder) -> FolderStatus:
    """The state of a step by the files that DCP puts last."""
    markers = _markers(folder)
    if not markers:
        return FolderStatus(
            StepState.PARTIAL, reason=f"there is no {MARKER}: its save has not ended"
        )
    last = max(markers, key=lambda path: folder.files[path].updated_s)
    if not _ranks(folder, _DATA):
        return FolderStatus(StepState.CORRUPT, last, f"{folder.prefix}__*.distcp: missing")
    return FolderStatus(StepState.UNSEALED, last, committed_s=folder.files[last].updated_s)


def deletion_rank(path: str) -> int:
    """The order of a file in a deletion, the lowest first: markers."""
    return 0 if path == MARKER or _MARKER_OF_RANK.fullmatch(path) else 1


def _markers(folder: StepFolder) -> list[str]:
    """The one of all ranks, or those of every rank that wrote something; none while one lacks."""
    if MARKER in folder.files:
        return [MARKER]
    marked = _ranks(folder, _MARKER_OF_RANK)
    complete = bool(marked) and marked >= _ranks(folder, _DATA)
    return [f"__{rank}{MARKER}" for rank in sorted(marked)] if complete else []


def _ranks(folder: StepFolder, pattern: re.Pattern[str]) -> set[str]:
    return {match[1] for path in folder.files if (match := pattern.fullmatch(path))}
