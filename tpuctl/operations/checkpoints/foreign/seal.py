"""Writing down what a step of another framework consists of, from what the store knows of it."""

from datetime import UTC, datetime
from functools import partial

from tpuctl import __version__
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.operations.checkpoints.foreign import seal_record
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.foreign.object_bytes import THREADS, checksum
from tpuctl.operations.checkpoints.foreign.seal_record import Seal, SealedObject
from tpuctl.operations.checkpoints.foreign.step_folder import StepFolder
from tpuctl.operations.checkpoints.step_view import StepState


def seal_step(step: ForeignStep, *, now_s: float) -> Seal:
    """Put the seal beside a step that is UNSEALED; the seal of one that is COMPLETE as it is.

    A bucket's own checksums are taken; in a directory every byte is read. Raises
    PreconditionError when the step is in another state, or changed meanwhile.
    """
    if step.view.state is StepState.COMPLETE and step.seal is not None:
        return step.seal
    if step.view.state is not StepState.UNSEALED:
        raise PreconditionError(
            f"{step.view.name} is {step.view.state} and cannot be sealed: {step.view.reason}",
            hint=_HINTS.get(step.view.state),
        )
    made = Seal(
        name=step.view.name,
        kind=step.view.kind,
        marker=step.marker or "",
        created=datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        writer=f"tpuctl {__version__}",
        objects=_seal_objects(step.folder),
    )
    if step.folder.relist().files != step.folder.files:
        raise PreconditionError(f"{step.view.name} changed while it was sealed")
    if step.seal is not None:
        _refuse_other_bytes(step.seal, made)
    generation = 0 if step.sealed is None else step.sealed.generation
    step.store.put_if_generation(seal_record.seal_key(made.name), made.encode(), generation)
    return made


_HINTS = {StepState.PARTIAL: "wait until it is written, or add --watch"}


def _refuse_other_bytes(before: Seal, made: Seal) -> None:
    """A seal may only be added to: what it says already stands."""
    found = {each.path: each.crc32c for each in made.objects}
    for each in before.objects:
        if found.get(each.path) != each.crc32c:
            raise IntegrityError(f"{made.name}/{each.path}: not the bytes that were sealed")


def _seal_objects(folder: StepFolder) -> tuple[SealedObject, ...]:
    paths = sorted(folder.files)
    sums = parallel_map(partial(checksum, folder), paths, threads=THREADS)
    return tuple(
        SealedObject(path, folder.files[path].size_bytes, folder.files[path].generation, crc32c)
        for path, crc32c in zip(paths, sums, strict=True)
    )
