"""Decides which steps of a directory are deleted and why others stay; deletes them, and pins."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.write import garbage_collection
from tpuctl.errors import PartialFailureError, PreconditionError, TpuctlError
from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.step_view import RESTORABLE_STATES, StepState, StepView
from tpuctl.operations.checkpoints.survey import DirectorySurvey, FoundStep, OwnStep, has_gone
from tpuctl.operations.checkpoints.verify import StepVerdict, VerifyResult
from tpuctl.store import Entry, Store

NOT_OURS = "not tpuctl's: --foreign"
UNDER_WAY = "it may be under way"
CORRUPT = "its bytes are not what was sealed"
_OLDER = "older than those that are kept"
_DELETED_AS = {
    StepState.COMPLETE: _OLDER,
    StepState.UNVERIFIED: _OLDER,
    StepState.UNSEALED: _OLDER,
    StepState.PARTIAL: "no run can bring it to an end any more",
}
_BEGINS_WITHIN_S = 86400.0
"""A run that has not restored within a day is dead."""


@dataclass(frozen=True)
class PruneChoice:
    """Whether a step is deleted, and why."""

    step: FoundStep
    is_deleted: bool
    why: str
    is_damaged: bool = False
    """Its bytes were read, and are not what was sealed."""

    @property
    def view(self) -> StepView:
        """The step as commands show it."""
        return self.step.view


@dataclass(frozen=True)
class Deletion:
    """The outcome of one deletion: of a step, or of a leftover object."""

    name: str
    """The folder of the step, or the key of the object."""
    step: FoundStep | None
    """None for a leftover object."""
    is_deleted: bool
    """False as well when it was gone, or is another one by now."""
    error: TpuctlError | None = None

    @property
    def outcome(self) -> str:
        """`deleted`, `failed` or `left`, as the command shows it."""
        return "failed" if self.error else "deleted" if self.is_deleted else "left"


@dataclass(frozen=True)
class PrunePlan:
    """The choice for every step, and the leftover objects to delete."""

    store: Store
    choices: Sequence[PruneChoice]
    """Every step, oldest first."""
    leftovers: Sequence[Entry]
    """Objects of saves that nobody can bring to an end any more."""

    @property
    def steps_to_delete(self) -> list[FoundStep]:
        """The steps that are deleted, oldest first."""
        return [each.step for each in self.choices if each.is_deleted]

    @property
    def size_bytes(self) -> int:
        """The bytes that the deletion gives back."""
        steps = sum(each.view.size_bytes for each in self.steps_to_delete)
        return steps + sum(each.size_bytes for each in self.leftovers)


def plan_prune(
    survey: DirectorySurvey,
    keep: int,
    now_s: float,
    *,
    foreign: bool,
    corrupt: Collection[str] = (),
) -> PrunePlan:
    """Plan to delete all but the newest `keep` good steps; `foreign`: other frameworks' too.

    Pinned steps and the newest good one stay, whatever `keep` says. `corrupt` names steps of other
    frameworks that were read and are not good; `now_s` is Unix time. Raises PreconditionError while
    a run begins: it may find that it needs an older step.
    """
    _refuse_while_one_begins(survey, now_s)
    history = survey.history
    ours = garbage_collection.plan_deletions(history, keep, history.last_fence)
    useless = frozenset(ours.leftovers)
    doomed = {each.step for each in ours.steps}
    doomed |= {each.step for each in history.steps if useless.issuperset(each.entries)}
    others = _foreign_choices(survey.foreign, keep, corrupt) if foreign else {}
    choices = [
        _own_choice(step, is_deleted=step.step.step in doomed)
        if isinstance(step, OwnStep)
        else others.get(step.view.name, PruneChoice(step, is_deleted=False, why=NOT_OURS))
        for step in survey.steps
    ]
    gone = {entry for each in history.steps if each.step in doomed for entry in each.entries}
    return PrunePlan(
        survey.place.store, choices, [each for each in ours.leftovers if each not in gone]
    )


def steps_to_verify(plan: PrunePlan) -> list[FoundStep]:
    """The newest step that stays, of each framework that loses good ones.

    A listing alone is not enough to delete the others for.
    """
    losing = {
        one.view.kind
        for one in plan.choices
        if one.is_deleted and one.view.state in RESTORABLE_STATES
    }
    newest = {
        one.view.kind: one.step
        for one in plan.choices
        if not one.is_deleted and one.view.state == StepState.COMPLETE and not one.is_damaged
    }
    return [step for kind, step in newest.items() if kind in losing]


def intersect_plans(before: PrunePlan, now: PrunePlan) -> PrunePlan:
    """The part of the plan `before` that the plan `now` would still delete."""
    shown = {(each.view.kind, each.view.name) for each in before.choices if each.is_deleted}
    keys = {(each.key, each.generation) for each in before.leftovers}
    return PrunePlan(
        now.store,
        [each for each in now.choices if (each.view.kind, each.view.name) in shown],
        [each for each in now.leftovers if (each.key, each.generation) in keys],
    )


def recheck_plan(
    shown: PrunePlan,
    plan_anew: Callable[[Collection[str]], PrunePlan],
    verify: Callable[[Sequence[FoundStep]], Sequence[VerifyResult]],
) -> PrunePlan:
    """Narrow the plan that was shown to what may be deleted once the newest good step was read.

    Time went by with the question, too: a step that is pinned by now, or the newest good one,
    stays. `plan_anew` plans with the names of steps that were found to be corrupt.
    """
    corrupt: set[str] = set()
    read: set[str] = set()
    while True:
        plan = plan_anew(corrupt)
        unread = [step for step in steps_to_verify(plan) if step.view.name not in read]
        if not unread:
            return intersect_plans(shown, plan)
        for result in verify(unread):
            read.add(result.view.name)
            if result.verdict is StepVerdict.CORRUPT:
                corrupt.add(result.view.name)


def delete_planned(plan: PrunePlan) -> Iterator[Deletion]:
    """Delete the steps of a plan, then its leftovers, and yield each; an error does not end it."""
    for step in plan.steps_to_delete:
        yield _attempt(step.view.name, step, partial(delete_step, step))
    for entry in plan.leftovers:
        delete = partial(garbage_collection.delete_leftover, plan.store, entry)
        yield _attempt(entry.key, None, delete)


def require_deleted(deletions: Sequence[Deletion]) -> None:
    """Raise PartialFailureError when a step or object could not be deleted."""
    failed = [each.name for each in deletions if each.error]
    if failed:
        count = sum(each.step is not None or each.error is not None for each in deletions)
        raise PartialFailureError(
            f"{len(failed)} of {count} were not deleted: {failed[0]}",
            hint="run the same command again",
        )


def _attempt(name: str, step: FoundStep | None, delete: Callable[[], bool]) -> Deletion:
    try:
        return Deletion(name, step, delete())
    except TpuctlError as error:
        return Deletion(name, step, is_deleted=False, error=error)


def delete_step(step: FoundStep) -> bool:
    """Delete a step, what makes it complete first; False when it was replaced meanwhile."""
    if isinstance(step, OwnStep) and step.step.committed is not None:
        return garbage_collection.delete_step(step.store, step.step)
    try:
        for entry in step.step.entries if isinstance(step, OwnStep) else step.deletion_order():
            step.store.delete(entry.key, generation=entry.generation)
    except PreconditionError:
        return False
    return True


def _refuse_while_one_begins(survey: DirectorySurvey, now_s: float) -> None:
    """Between RUN and ROLLBACK a run looks for a step that it can go on from."""
    fence = survey.history.newest_run
    began = [
        each for each in survey.history.coordination_entries if each.key == layout.run_key(fence)
    ]
    if not began or survey.place.store.head(layout.rollback_key(fence)) is not None:
        return
    if now_s - began[0].updated_s < _BEGINS_WITHIN_S:
        raise PreconditionError(
            f"the run with fence {fence} has not decided yet from which step it goes on",
            hint="wait until it has, then run the same command again",
        )


def _own_choice(step: OwnStep, *, is_deleted: bool) -> PruneChoice:
    return PruneChoice(step, is_deleted, _reason(step.view, is_deleted=is_deleted))


def _reason(view: StepView, *, is_deleted: bool) -> str:
    if view.pinned:
        return "pinned"
    if is_deleted:
        return _DELETED_AS.get(view.state, view.reason)
    return UNDER_WAY if view.state == StepState.PARTIAL else view.reason


def _foreign_choices(
    steps: Sequence[ForeignStep], keep: int, corrupt: Collection[str]
) -> dict[str, PruneChoice]:
    """The choices for other frameworks' steps, by name; what may be under way is kept."""
    good = [
        step
        for step in steps
        if step.view.state in RESTORABLE_STATES and step.view.name not in corrupt
    ]
    sealed = [step for step in good if step.view.state == StepState.COMPLETE]
    kept = {step.view.name for step in [*good[-keep:], *sealed[-1:]]}
    oldest = steps.index(good[-keep:][0]) if good else 0
    choices = {}
    for number, step in enumerate(steps):
        view = step.view
        is_damaged = view.name in corrupt
        is_corrupt = view.state == StepState.CORRUPT or is_damaged
        is_old = view.state in RESTORABLE_STATES and view.name not in kept
        is_deleted = (number < oldest if is_corrupt else is_old) and not view.pinned
        why = CORRUPT if is_damaged else _reason(view, is_deleted=is_deleted)
        choices[view.name] = PruneChoice(step, is_deleted, why, is_damaged)
    return choices


def pin_step(step: FoundStep) -> bool:
    """Pin a step; False when it was pinned already.

    Raises PreconditionError when it is not complete, or was deleted meanwhile.
    """
    if step.view.state not in RESTORABLE_STATES:
        raise PreconditionError(
            f"step {step.view.handle} is {step.view.state}: there is nothing to keep",
            hint="pin one that is COMPLETE",
        )
    try:
        step.store.put_if_absent(_pin_key(step), b"")
    except PreconditionError:
        return False
    # Whoever deletes looks for a pin first: had it looked before, it has deleted by now.
    if has_gone(step):
        unpin_step(step)
        raise PreconditionError(
            f"step {step.view.handle} was deleted meanwhile", hint="pin one that is still there"
        )
    return True


def unpin_step(step: FoundStep) -> bool:
    """Remove the pin of a step; False when it had none."""
    return step.store.delete(_pin_key(step))


def _pin_key(step: FoundStep) -> str:
    if isinstance(step, OwnStep):
        return layout.pin_key(step.step.step)
    return foreign_steps.pin_key(step.view.name)
