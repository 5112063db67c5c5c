"""Whether the bytes of a step of another framework are those that were sealed."""

from collections.abc import Callable
from functools import partial

from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.errors import IntegrityError, NoCheckpointError, PreconditionError
from tpuctl.operations.checkpoints.foreign import safetensors_folder, seal_record
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.foreign.seal_record import Seal, SealedObject
from tpuctl.operations.checkpoints.foreign.step_folder import THREADS, StepFolder, compute_checksum
from tpuctl.operations.checkpoints.step_view import CheckpointKind, StepState


def find_differences(
    step: ForeignStep, advance: Callable[[int], object] = lambda _: None
) -> list[str]:
    """Read every byte; the differences from the seal, each with the object's name.

    `advance` is told of bytes read, in any thread. Raises PreconditionError when there is no seal,
    NoCheckpointError when the step is not finished.
    """
    if step.view.state is StepState.PARTIAL:
        raise NoCheckpointError(f"{step.view.name} is not complete: {step.view.reason}")
    # A file that is cut off is found without a seal too.
    own = _own_defects(step)
    if step.seal is None:
        if step.outdated_seal is not None and not _differences(
            step.outdated_seal, step.folder, advance
        ):
            return []  # not saved anew: a copy, of which the seal came first
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
    """What the listing tells, then what the bytes of the others do, by the object's path."""
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
