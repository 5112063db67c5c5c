"""What its seal makes of what a step of another framework says of itself."""

from dataclasses import dataclass, replace

from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.operations.checkpoints.foreign import seal_record
from tpuctl.operations.checkpoints.foreign.folder import Finding, Folder
from tpuctl.operations.checkpoints.foreign.seal_record import Seal
from tpuctl.operations.checkpoints.model import State
from tpuctl.store import Entry


@dataclass(frozen=True)
class Standing:
    """How a step stands."""

    finding: Finding
    seal: Seal | None = None
    """What its seal says, when it counts."""
    former: Seal | None = None
    """What it says of a step that, as it seems, was saved anew since."""


def standing(finding: Finding, folder: Folder, sealed: Entry | None, *, may_grow: bool) -> Standing:
    """Compare a step with its seal, as far as the listing tells.

    `may_grow`: files that came later are no damage.
    """
    if sealed is None:
        return Standing(finding)
    try:
        seal = seal_record.read(folder.store, sealed, folder.name)
    except IntegrityError as error:
        return Standing(replace(finding, state=State.CORRUPT, reason=str(error)))
    except PreconditionError as error:  # a later tpuctl wrote it
        return Standing(replace(finding, reason=str(error)))
    if seal_record.is_outlived(seal, sealed.updated_s, folder):
        reason = finding.reason or "it was saved anew after it was sealed"
        return Standing(replace(finding, reason=reason), former=seal)
    return Standing(_as_sealed(finding, seal, folder, may_grow=may_grow), seal)


def _as_sealed(finding: Finding, seal: Seal, folder: Folder, *, may_grow: bool) -> Finding:
    found = seal_record.defects(seal, folder)
    is_complete = finding.state is State.UNSEALED
    if not found:  # what says otherwise now was complete when it was sealed
        return replace(finding, state=State.COMPLETE if is_complete else State.CORRUPT)
    if may_grow and is_complete and found == seal_record.extra(seal, folder):
        return replace(finding, reason=f"{len(found)} files came after it was sealed")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return replace(finding, state=State.CORRUPT, reason=found[0] + more)
