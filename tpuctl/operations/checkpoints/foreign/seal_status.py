"""What its seal makes of what a step of another framework says of itself."""

from dataclasses import dataclass, replace

from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.operations.checkpoints.foreign import seal_record
from tpuctl.operations.checkpoints.foreign.seal_record import Seal
from tpuctl.operations.checkpoints.foreign.step_folder import FolderStatus, StepFolder
from tpuctl.operations.checkpoints.step_view import StepState
from tpuctl.store import Entry


@dataclass(frozen=True)
class SealStatus:
    """How a step stands."""

    finding: FolderStatus
    seal: Seal | None = None
    """What its seal says, when it counts."""
    outdated_seal: Seal | None = None
    """What it says of a step that, as it seems, was saved anew since."""


def compare_with_seal(
    finding: FolderStatus, folder: StepFolder, sealed: Entry | None, *, may_grow: bool
) -> SealStatus:
    """Compare a step with its seal, as far as the listing tells.

    `may_grow`: files that came later are no damage.
    """
    if sealed is None:
        return SealStatus(finding)
    try:
        seal = seal_record.read_seal(folder.store, sealed, folder.name)
    except IntegrityError as error:
        return SealStatus(replace(finding, state=StepState.CORRUPT, reason=str(error)))
    except PreconditionError as error:  # a later tpuctl wrote it
        return SealStatus(replace(finding, reason=str(error)))
    if seal_record.is_outdated(seal, sealed.updated_s, folder):
        reason = finding.reason or "it was saved anew after it was sealed"
        return SealStatus(replace(finding, reason=reason), outdated_seal=seal)
    return SealStatus(_apply_seal(finding, seal, folder, may_grow=may_grow), seal)


def _apply_seal(
    finding: FolderStatus, seal: Seal, folder: StepFolder, *, may_grow: bool
) -> FolderStatus:
    found = seal_record.find_defects(seal, folder)
    is_complete = finding.state is StepState.UNSEALED
    if not found:  # what says otherwise now was complete when it was sealed
        return replace(finding, state=StepState.COMPLETE if is_complete else StepState.CORRUPT)
    if may_grow and is_complete and [*found] == seal_record.unsealed_paths(seal, folder):
        return replace(finding, reason=f"{len(found)} files came after it was sealed")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return replace(finding, state=StepState.CORRUPT, reason=next(iter(found.values())) + more)
