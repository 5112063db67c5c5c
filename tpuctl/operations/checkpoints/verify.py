"""Whether the bytes of a step are what was written: every one is read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.checkpoint.read.step_history import mark_bad, note_verified
from tpuctl.checkpoint.read.verification import verify_step
from tpuctl.errors import IntegrityError, NoCheckpointError, PreconditionError, TpuctlError
from tpuctl.operations.checkpoints.foreign import safetensors_folder, seal_record
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.foreign.seal_record import Seal, SealedObject
from tpuctl.operations.checkpoints.foreign.step_folder import THREADS, StepFolder, compute_checksum
from tpuctl.operations.checkpoints.step_view import CheckpointKind, StepState, StepView
from tpuctl.operations.checkpoints.survey import CheckpointLocation, FoundStep, OwnStep, has_gone


class StepVerdict(StrEnum):
    """The result of reading a step."""

    WHOLE = "whole"
    CORRUPT = "corrupt"
    UNSEALED = "unsealed"
    """Nothing says what its bytes were."""
    PARTIAL = "partial"
    GONE = "gone"
    """It was deleted while it was read."""


@dataclass(frozen=True)
class VerifyResult:
    """The verdict on a step, and the reason."""

    step: FoundStep
    verdict: StepVerdict
    why: str = ""
    unmarked: TpuctlError | None = None
    """Why a step of ours could not be marked: who may read may not write, perhaps."""

    @property
    def view(self) -> StepView:
        """The step as commands show it."""
        return self.step.view


def verify_steps(steps: Sequence[FoundStep], advance: Callable[[int], None]) -> list[VerifyResult]:
    """Read every byte of the steps, then mark those of ours that are corrupt.

    Neither a run nor prune takes a marked one for good. A step of ours that is whole is COMPLETE
    from then on, also one that was copied, or was marked and is put right. The steps of other
    frameworks stay as they are. `advance` gets the number of bytes compared, from any thread.
    """
    results = [verify_found_step(step, advance) for step in steps]
    return [_remember(result) for result in results]


def require_whole(place: CheckpointLocation, results: Sequence[VerifyResult]) -> None:
    """Raise unless all that can be compared is whole, and something is.

    IntegrityError when a step is corrupt, PreconditionError when none has a seal to compare with,
    NoCheckpointError when none is complete.
    """
    corrupt = [result for result in results if result.verdict is StepVerdict.CORRUPT]
    unsealed = [result for result in results if result.verdict is StepVerdict.UNSEALED]
    if corrupt:
        first = corrupt[0]
        raise IntegrityError(
            f"{counted(len(corrupt))} corrupt: step {first.view.handle}: {first.why}",
            hint=_corrupt_hint(place, first),
        )
    if any(result.verdict is StepVerdict.WHOLE for result in results):
        return
    if unsealed:
        raise PreconditionError(
            f"{counted(len(unsealed))} not sealed: there is nothing to compare with",
            hint=f"seal it while it is surely good: tpuctl checkpoint seal {place.typed}",
        )
    last = results[-1]
    raise NoCheckpointError(
        f"step {last.view.handle} is {last.verdict}: {last.why}",
        hint=f"run: tpuctl checkpoint list {place.typed}",
    )


def counted(count: int) -> str:
    """`1 step is`, `3 steps are`."""
    return "1 step is" if count == 1 else f"{count} steps are"


def _corrupt_hint(place: CheckpointLocation, corrupt: VerifyResult) -> str:
    if corrupt.view.kind is CheckpointKind.TPUCTL:
        return f"a run takes the newest good step; run: tpuctl checkpoint list {place.typed}"
    return (
        f"{corrupt.view.kind.value} restores it all the same: name a good step to it; "
        f"run: tpuctl checkpoint verify {place.typed} --all"
    )


def verify_found_step(step: FoundStep, advance: Callable[[int], None]) -> VerifyResult:
    """Read a step and compare it; `advance` gets the number of bytes compared, from any thread."""
    view = step.view
    if view.state == StepState.PARTIAL:
        return VerifyResult(step, StepVerdict.PARTIAL, view.reason)
    try:
        wrong = "; ".join(_findings(step, advance))
    except PreconditionError as error:
        return VerifyResult(step, StepVerdict.UNSEALED, str(error))
    except IntegrityError as error:
        wrong = str(error)
    if wrong and has_gone(step):
        return VerifyResult(step, StepVerdict.GONE, "it was deleted while it was read")
    return VerifyResult(step, StepVerdict.CORRUPT if wrong else StepVerdict.WHOLE, wrong)


def _remember(result: VerifyResult) -> VerifyResult:
    """Mark a corrupt step of ours, and note of a copy or of a marked one that it is whole."""
    step = result.step
    if not isinstance(step, OwnStep):
        return result
    try:
        if result.verdict is StepVerdict.CORRUPT and not step.step.defect:
            mark_bad(step.store, step.step, result.why)
        elif result.verdict is StepVerdict.WHOLE:
            note_verified(step.store, step.step)
    except TpuctlError as error:
        return replace(result, unmarked=error)
    return result


def _findings(step: FoundStep, advance: Callable[[int], None]) -> Iterator[str]:
    if not isinstance(step, OwnStep):
        yield from find_differences(step, advance)
    elif step.step.committed is None or not step.step.defect:
        verify_step(step.store, step.step, advance)
    elif step.step.is_marked_bad:  # it may have been put right
        verify_step(step.store, replace(step.step, defect=None), advance)
    else:
        yield step.step.defect


def find_differences(
    step: ForeignStep, advance: Callable[[int], object] = lambda _: None
) -> list[str]:
    """Read every byte; the differences from the seal, each with the object's name.

    `advance` gets the number of bytes read, in any thread. Raises PreconditionError when there is
    no seal, NoCheckpointError when the step is not finished.
    """
    if step.view.state is StepState.PARTIAL:
        raise NoCheckpointError(f"{step.view.name} is not complete: {step.view.reason}")
    # A file that is cut off is found without a seal too.
    own = _own_defects(step)
    if step.seal is None:
        if step.outdated_seal is not None and not _differences(
            step.outdated_seal, step.folder, advance
        ):
            return []  # not saved again: a copy, of which the seal came first
        return own or _refuse_unsealed(step)
    differences = _differences(step.seal, step.folder, advance)
    if step.view.state is StepState.UNSEALED and (
        [*differences] == seal_record.unsealed_paths(step.seal, step.folder)
    ):
        return own or _refuse_unsealed(step)
    reason = [step.view.reason] if step.view.state is StepState.CORRUPT else []
    return [*differences.values()] or own or reason


def _differences(
    seal: Seal, folder: StepFolder, advance: Callable[[int], object]
) -> dict[str, str]:
    """The differences from a seal by path: those of the listing, then those of the bytes."""
    listed = seal_record.find_defects(seal, folder)
    unknown = [each for each in seal.objects if each.path not in listed]
    check = partial(_difference, folder, advance=advance)
    texts = parallel_map(check, unknown, threads=THREADS)
    read = zip((each.path for each in unknown), texts, strict=True)
    return listed | {path: text for path, text in read if text}


def _refuse_unsealed(step: ForeignStep) -> list[str]:
    if step.view.state is StepState.CORRUPT:
        return [step.view.reason]
    reason = step.view.reason or "it has no seal"
    raise PreconditionError(
        f"nothing says what the bytes of {step.view.name} were: {reason}",
        hint=f"run: tpuctl checkpoint seal {step.store.url}",
    )


def _own_defects(step: ForeignStep) -> list[str]:
    if step.view.kind is not CheckpointKind.SAFETENSORS:
        return []
    try:
        safetensors_folder.check_files(step.folder)
    except IntegrityError as error:
        return [str(error)]
    return []


def _difference(folder: StepFolder, sealed: SealedObject, advance: Callable[[int], object]) -> str:
    try:
        crc32c = compute_checksum(folder, sealed.path, advance)
        if crc32c != sealed.crc32c:
            # Once more: they may have changed on their way here only.
            crc32c = compute_checksum(folder, sealed.path)
    except IntegrityError as error:
        return str(error)
    if crc32c == sealed.crc32c:
        return ""
    return (
        f"{folder.prefix}{sealed.path}: its bytes are not those that were sealed "
        f"(crc32c {crc32c}, not {sealed.crc32c})"
    )
