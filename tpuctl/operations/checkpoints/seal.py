"""Seals steps of other frameworks: size, generation and checksum of every object."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from tpuctl import __version__
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.errors import (
    DeadlineError,
    IntegrityError,
    OutcomeUnknownError,
    PartialFailureError,
    PreconditionError,
    TpuctlError,
    TransientError,
)
from tpuctl.operations.checkpoints.foreign import foreign_steps, seal_record
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.foreign.seal_record import Seal, SealedObject
from tpuctl.operations.checkpoints.foreign.step_folder import THREADS, StepFolder, checksum
from tpuctl.operations.checkpoints.step_view import StepState
from tpuctl.operations.checkpoints.survey import DirectorySurvey, OwnStep
from tpuctl.store import Store

POLL_S = 10.0
_HINTS = {StepState.PARTIAL: "wait until it is written, or add --watch"}


@dataclass(frozen=True)
class SealResult:
    """A step, and why it could not be sealed; None when it is."""

    step: ForeignStep
    error: TpuctlError | None = None


def steps_to_seal(survey: DirectorySurvey, wanted: str | None) -> Sequence[ForeignStep]:
    """The step of that number or name; without one every complete step that has no seal.

    Raises PreconditionError when only steps of tpuctl are meant: their COMMIT is their seal;
    NotFoundError when there is no such step.
    """
    verify = f"run: tpuctl checkpoint verify {survey.place.typed}"
    if wanted is None:
        if survey.foreign:
            return [each for each in survey.foreign if each.view.state == StepState.UNSEALED]
        raise PreconditionError(
            f"every step in {survey.place.url} is tpuctl's own: its COMMIT is its seal",
            hint=verify,
        )
    step = survey.choose(wanted)
    if isinstance(step, OwnStep):
        raise PreconditionError(
            f"step {step.view.handle} is tpuctl's own: its COMMIT is its seal",
            hint=f"{verify} --step {step.view.handle}",
        )
    return [step]


def seal_steps(
    steps: Sequence[ForeignStep],
    clock: Callable[[], float],
    show: Callable[[ForeignStep], AbstractContextManager[object]],
) -> Iterator[SealResult]:
    """Seal one step after the other, each within `show` of it; an error does not end it."""
    for step in steps:
        try:
            with show(step):
                seal_step(step, now_s=clock())
        except TpuctlError as error:
            yield SealResult(step, error)
        else:
            yield SealResult(step)


def require_sealed(results: Sequence[SealResult]) -> None:
    """Raise the error of the only step, or PartialFailureError when one of several failed."""
    errors = [result.error for result in results if result.error is not None]
    if errors and len(results) == 1:
        raise errors[0]
    if errors:
        raise PartialFailureError(
            f"{len(errors)} of {len(results)} steps were not sealed: {errors[0]}",
            hint="run the same command again",
        )


def seal_step(step: ForeignStep, *, now_s: float) -> Seal:
    """Put the seal beside a step that is UNSEALED, and return it.

    Of a step that is COMPLETE the existing seal is returned. A bucket's own checksums are taken; in
    a directory every byte is read. `now_s` is Unix time. Raises PreconditionError when the step is
    in another state, or changed meanwhile.
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


def _refuse_other_bytes(before: Seal, made: Seal) -> None:
    """A seal may only be added to: what it says already stands."""
    checksums = {sealed.path: sealed.crc32c for sealed in made.objects}
    for sealed in before.objects:
        if checksums.get(sealed.path) != sealed.crc32c:
            raise IntegrityError(f"{made.name}/{sealed.path}: not the bytes that were sealed")


def _seal_objects(folder: StepFolder) -> tuple[SealedObject, ...]:
    paths = sorted(folder.files)
    sums = parallel_map(partial(checksum, folder), paths, threads=THREADS)
    return tuple(
        SealedObject(path, folder.files[path].size_bytes, folder.files[path].generation, crc32c)
        for path, crc32c in zip(paths, sums, strict=True)
    )


def watch_and_seal(
    url: str,
    open_store: Callable[[str], Store],
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    trouble: Callable[[TpuctlError], object] = lambda _: None,
    poll_s: float = POLL_S,
) -> Iterator[ForeignStep]:
    """Yield each step that was just sealed; never ends by itself.

    The first look seals what is complete already. `trouble` gets the error of a failed look, which
    is made again after `poll_s` seconds.
    """
    known: list[ForeignStep] = []
    while True:
        try:
            steps = foreign_steps.find_foreign_steps(url, open_store, known)
            for step in steps:
                if _is_ready(step, known) and _try_seal(step, clock()):
                    yield step
            known = steps
        except (TransientError, DeadlineError, OutcomeUnknownError) as error:
            trouble(error)
        sleep(poll_s)


def _is_ready(step: ForeignStep, known: list[ForeignStep]) -> bool:
    """Whether nothing is written into it any more: its marker came last, or it stayed the same."""
    if step.view.state is not StepState.UNSEALED:
        return False
    return step.is_settled or any(each is step for each in known)


def _try_seal(step: ForeignStep, now_s: float) -> bool:
    try:
        seal_step(step, now_s=now_s)
    except (PreconditionError, IntegrityError):
        return False  # it changed, or somebody else was faster: the next look tells
    return True
