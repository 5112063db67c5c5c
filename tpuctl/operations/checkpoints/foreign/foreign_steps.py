"""The steps of other frameworks in a directory, recognised by the names of their objects.

A step is a folder of the directory that a person named, or that directory itself. Its seal
(docs/checkpoint-seal.md) and its pin lie beside it, never in it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.errors import IntegrityError, NotFoundError
from tpuctl.operations.checkpoints.foreign import dcp, orbax, safetensors_folder, seal_record
from tpuctl.operations.checkpoints.foreign.seal_record import Seal, compare_with_seal
from tpuctl.operations.checkpoints.foreign.step_folder import (
    THREADS,
    FolderStatus,
    StepFolder,
    without_folders,
)
from tpuctl.operations.checkpoints.step_view import CheckpointKind, StepState, StepView
from tpuctl.operations.stage.plan.names import UNFINISHED
from tpuctl.store import Entry, Store

_NUMBER = re.compile(r"(?:^|[-_=]|step)(\d{1,18})(?:\.ckpt)?$")


class ForeignFormat(Protocol):
    """A module that recognises, reads and deletes the steps of one framework."""

    MAY_GROW: bool
    """Whether others put files into a step that is complete."""

    def recognises(self, name: str, files: Mapping[str, Entry], /) -> bool:
        """Whether the framework wrote a folder, given its name and its files."""

    def read_status(self, folder: StepFolder, /) -> FolderStatus:
        """What a step says of itself. Raises IntegrityError when it says nonsense."""

    def deletion_rank(self, path: str, /) -> int:
        """Which files go first, the lowest: what is half deleted must not look like a step."""


FORMATS: Mapping[CheckpointKind, ForeignFormat] = {
    CheckpointKind.ORBAX: orbax,
    CheckpointKind.DCP: dcp,
    CheckpointKind.SAFETENSORS: safetensors_folder,
}
"""The first that fits counts."""


@dataclass(frozen=True)
class ForeignStep:
    """A step of another framework with its seal and pin, as they were listed."""

    view: StepView
    folder: StepFolder
    marker: str | None
    """The path of what its writer writes last."""
    sealed: Entry | None
    """The object with its seal."""
    seal: Seal | None
    """What that says, when it counts."""
    outdated_seal: Seal | None
    """What it said of a step that was saved again since, as it seems."""
    pin: Entry | None

    @property
    def is_settled(self) -> bool:
        """Whether its marker was written last: no other file is to come."""
        if self.marker is None or FORMATS[self.view.kind].MAY_GROW:
            return False
        marked_s = self.folder.files[self.marker].updated_s
        return all(each.updated_s <= marked_s for each in self.entries)

    @property
    def store(self) -> Store:
        """The store of the directory that it lies in."""
        return self.folder.store

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The objects of the step, without seal and pin."""
        return tuple(self.folder.files.values())

    def deletion_order(self) -> list[Entry]:
        """The objects of the step in the order of a deletion: marker first, seal and pin last."""
        rank = FORMATS[self.view.kind].deletion_rank
        own = sorted(self.folder.files, key=lambda path: (rank(path), path))
        beside = [each for each in (self.sealed, self.pin) if each is not None]
        return [*(self.folder.files[path] for path in own), *beside]


def pin_key(name: str) -> str:
    """The key of the empty object that pins the step of that name."""
    return f"tpuctl-pin_{name}"


def find_foreign_steps(
    url: str,
    open_store: Callable[[str], Store],
    known: Sequence[ForeignStep] = (),
    *,
    listed: Sequence[Entry] | None = None,
) -> list[ForeignStep]:
    """The steps of other frameworks in a directory, oldest first, or the one that it is.

    A step of `known` whose objects did not change is not read again. `listed` is what the caller
    has listed of the whole directory.
    """
    store = open_store(url)
    entries = without_folders(store.list() if listed is None else listed)
    folders = _folders(store, entries)
    if _is_a_step(store.url, entries, has_steps=bool(folders)):
        parent, _, name = store.url.rpartition("/")
        if parent == "gs:/":  # a whole bucket: nothing can lie beside it
            return []
        store = open_store(parent or "/")
        folders = [StepFolder(store, name, {}).relist()]
        entries = list(store.list("tpuctl-"))
    beside = {each.key: each for each in entries if "/" not in each.key}
    before = {each.view.name: each for each in known}
    steps = parallel_map(
        lambda folder: _step(folder, beside, before.get(folder.name)), folders, threads=THREADS
    )
    return sorted(steps, key=lambda each: (each.view.step or 0, each.view.name))


def _folders(store: Store, entries: Sequence[Entry]) -> list[StepFolder]:
    files: dict[str, dict[str, Entry]] = defaultdict(dict)
    for entry in entries:
        name, slash, path = entry.key.partition("/")
        if slash and not name.startswith(UNFINISHED) and layout.parse_key(entry.key) is None:
            files[name][path] = entry
    return [StepFolder(store, name, below) for name, below in files.items() if _kind(name, below)]


def _is_a_step(url: str, entries: Sequence[Entry], *, has_steps: bool) -> bool:
    kind = _kind(url.rpartition("/")[2], {each.key: each for each in entries})
    # The folder of a model may hold steps too; the items of a step of Orbax only look like steps.
    return kind is not None and (kind is not CheckpointKind.SAFETENSORS or not has_steps)


def _kind(name: str, files: Mapping[str, Entry]) -> CheckpointKind | None:
    return next((kind for kind, each in FORMATS.items() if each.recognises(name, files)), None)


def _step(
    folder: StepFolder, beside: Mapping[str, Entry], before: ForeignStep | None
) -> ForeignStep:
    sealed, pin = beside.get(seal_record.seal_key(folder.name)), beside.get(pin_key(folder.name))
    if before and (before.folder.files, before.sealed, before.pin) == (folder.files, sealed, pin):
        return before
    kind = _kind(folder.name, folder.files)
    if kind is None:  # it vanished while it was looked at
        raise NotFoundError(f"{folder.store.url}/{folder.name} was deleted meanwhile")
    form = FORMATS[kind]
    stands = compare_with_seal(_read_status(form, folder), folder, sealed, may_grow=form.MAY_GROW)
    finding = stands.finding
    view = StepView(
        name=folder.name,
        step=_number(folder.name),
        kind=kind,
        state=finding.state,
        size_bytes=folder.size_bytes,
        committed_s=finding.committed_s,
        save_s=finding.save_s,
        pinned=pin is not None,
        reason=finding.reason,
    )
    return ForeignStep(view, folder, finding.marker, sealed, stands.seal, stands.outdated_seal, pin)


def _read_status(form: ForeignFormat, folder: StepFolder) -> FolderStatus:
    try:
        return form.read_status(folder)
    except IntegrityError as error:
        return FolderStatus(StepState.CORRUPT, reason=str(error))


def _number(name: str) -> int | None:
    """The step in a folder's name: 100, ckpt_100, step-100, checkpoint-100, step=100.ckpt."""
    match = _NUMBER.search(name.partition(orbax.TEMPORARY)[0])
    return None if match is None else int(match[1])
