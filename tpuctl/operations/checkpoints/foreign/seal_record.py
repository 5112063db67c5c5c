"""The seal of a step of another framework: its objects at the time when it was sealed.

docs/checkpoint-seal.md says how it is written. It lies beside the step, not in it.
"""

from dataclasses import asdict, dataclass, replace

from tpuctl.byte_size import count_text
from tpuctl.checkpoint.format.manifest import decode, encode
from tpuctl.errors import IntegrityError, NotFoundError, PreconditionError
from tpuctl.operations.checkpoints.foreign.step_folder import FolderStatus, StepFolder
from tpuctl.operations.checkpoints.step_view import StepState
from tpuctl.store import Entry, Store


@dataclass(frozen=True)
class SealedObject:
    """An object of a sealed step; its path is below the step."""

    path: str
    size_bytes: int
    generation: int
    crc32c: str


@dataclass(frozen=True)
class Seal:
    """The objects of a step, and who sealed it when."""

    name: str
    kind: str
    marker: str
    """The path of the marker that was seen, "" for none."""
    created: str
    writer: str
    objects: tuple[SealedObject, ...]

    @property
    def size_bytes(self) -> int:
        """The size of all its objects together."""
        return sum(each.size_bytes for each in self.objects)

    def encode(self) -> bytes:
        """The bytes of the seal as it is stored."""
        return encode(asdict(self))


@dataclass(frozen=True)
class SealStatus:
    """The state of a step once its seal was compared."""

    finding: FolderStatus
    seal: Seal | None = None
    """What its seal says, when it counts."""
    outdated_seal: Seal | None = None
    """What it says of a step that, as it seems, was saved again since."""


def seal_key(name: str) -> str:
    """The key of the seal of the step of that name."""
    return f"tpuctl-seal_{name}.json"


def read_seal(store: Store, entry: Entry, name: str) -> Seal:
    """Read the seal of the step `name`.

    Raises IntegrityError when it is not what was written, PreconditionError when a later tpuctl
    wrote it.
    """
    try:
        record = decode(store.get_range(entry.key, generation=entry.generation))
        record.pop("schema", None)
        objects = tuple(SealedObject(**each) for each in record.pop("objects"))
        seal = Seal(**record, objects=objects)
    except NotFoundError as error:
        raise IntegrityError(f"{entry.key}: replaced meanwhile") from error
    except IntegrityError as error:
        raise IntegrityError(f"{entry.key}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError(f"{entry.key}: it is not valid: {error}") from error
    if seal.name != name:
        raise IntegrityError(f"{entry.key}: it is the seal of {seal.name}")
    return seal


def find_defects(seal: Seal, folder: StepFolder) -> dict[str, str]:
    """The differences between the listing and the seal: sentences by the path of the object.

    Each begins with the object's name. A generation alone is not a defect: a copy of a step, made
    with its seal, has others.
    """
    texts = {
        sealed.path: difference
        for sealed in seal.objects
        if (difference := _difference(sealed, folder.files.get(sealed.path)))
    }
    texts |= dict.fromkeys(unsealed_paths(seal, folder), "not in the seal")
    return {path: f"{folder.prefix}{path}: {text}" for path, text in texts.items()}


def unsealed_paths(seal: Seal, folder: StepFolder) -> list[str]:
    """The files that are in the step but not in its seal, in order."""
    return sorted(folder.files.keys() - {each.path for each in seal.objects})


def is_outdated(seal: Seal, written_s: float, folder: StepFolder) -> bool:
    """Whether the step was saved again after it was sealed: all its files are later.

    `written_s` is the store's time of the seal. A copy with equal checksums is not saved again; the
    listing of a directory has no checksums.
    """
    sealed = {(each.path, each.generation) for each in seal.objects}
    is_later = all(
        entry.updated_s > written_s and (path, entry.generation) not in sealed
        for path, entry in folder.files.items()
    )
    tells = all(entry.crc32c for entry in folder.files.values())
    return is_later and not (tells and not find_defects(seal, folder))


def compare_with_seal(
    finding: FolderStatus, folder: StepFolder, sealed: Entry | None, *, may_grow: bool
) -> SealStatus:
    """Compare a step with its seal, as far as the listing shows.

    With `may_grow`, files that came later are not damage.
    """
    if sealed is None:
        return SealStatus(finding)
    try:
        seal = read_seal(folder.store, sealed, folder.name)
    except IntegrityError as error:
        return SealStatus(replace(finding, state=StepState.CORRUPT, reason=str(error)))
    except PreconditionError as error:  # a later tpuctl wrote it
        return SealStatus(replace(finding, reason=str(error)))
    if is_outdated(seal, sealed.updated_s, folder):
        reason = finding.reason or "it was saved again after it was sealed"
        return SealStatus(replace(finding, reason=reason), outdated_seal=seal)
    return SealStatus(_apply_seal(finding, seal, folder, may_grow=may_grow), seal)


def _apply_seal(
    finding: FolderStatus, seal: Seal, folder: StepFolder, *, may_grow: bool
) -> FolderStatus:
    defects = find_defects(seal, folder)
    is_complete = finding.state is StepState.UNSEALED
    if not defects:  # what says otherwise now was complete when it was sealed
        return replace(finding, state=StepState.COMPLETE if is_complete else StepState.CORRUPT)
    if may_grow and is_complete and [*defects] == unsealed_paths(seal, folder):
        return replace(
            finding, reason=f"{count_text(len(defects), 'file')} came after it was sealed"
        )
    more = f" (and {len(defects) - 1} more)" if len(defects) > 1 else ""
    return replace(finding, state=StepState.CORRUPT, reason=next(iter(defects.values())) + more)


def _difference(sealed: SealedObject, entry: Entry | None) -> str:
    if entry is None:
        return "missing"
    if entry.size_bytes != sealed.size_bytes:
        return f"{entry.size_bytes} bytes, sealed with {sealed.size_bytes}"
    # A directory does not know the checksum of a file that another program wrote.
    if entry.crc32c not in ("", sealed.crc32c):
        return f"its crc32c is {entry.crc32c}, sealed as {sealed.crc32c}"
    return ""
