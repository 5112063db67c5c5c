"""Runs that begin, save, crash, stand still, lose replies and rot away, in any order.

An abandoned step never comes back, the newest one that is whole is always the one restored, nothing
blocks a save of the newest run, and what nobody needs any more goes.
"""

import re
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tpuctl.checkpoint.read import block_reader
from tpuctl.checkpoint.resume import coordination, resume_protocol
from tpuctl.checkpoint.write import commit_protocol, garbage_collection, part_writer
from tpuctl.errors import PreconditionError
from unit.checkpoint.interruptions import INTERRUPTIONS, Interruption
from unit.checkpoint.memory_store import Killed
from unit.checkpoint.read.line_runs import Training
from unit.checkpoint.read.line_world import FOREIGN, Commit, World
from unit.checkpoint.taking_turns import one_after_the_other

pytestmark = pytest.mark.filterwarnings("ignore:old checkpoints were not deleted")

LAST_PLACE = 24
"""A save makes about so many requests, its clean-up included."""
TRACES = re.compile(
    r"step_\d{12}/(COMMIT|PIN|BAD_\d+|a_\d{16}/(shard|done)_.*)|(ROLLBACK|RUN)_\d{16}"
)
interrupted = st.one_of(
    st.none(),
    st.tuples(
        st.integers(0, 1),
        st.builds(Interruption, st.sampled_from(sorted(INTERRUPTIONS)), st.integers(1, LAST_PLACE)),
    ),
)


def unless_killed(hook):
    """A thread of a program that was killed has nothing to say."""
    return lambda args: None if args.exc_type is Killed else hook(args)


class Lines(RuleBasedStateMachine):
    """Every rule is one operation of one run, or something that befalls the bucket."""

    @initialize(keep=st.integers(1, 2))
    def begin(self, keep):
        self.world = World(keep)
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(coordination, "time", self.world.time)
        for module in (
            block_reader,
            garbage_collection,
            commit_protocol,
            part_writer,
            resume_protocol,
        ):
            self.patch.setattr(module, "parallel_map", one_after_the_other)
        self.patch.setattr(threading, "excepthook", unless_killed(threading.excepthook))
        self.runs = []

    @rule(worker_count=st.sampled_from([1, 1, 2]), struck=interrupted)
    def a_run_restores(self, worker_count, struck):
        self._restore(self._new_run(worker_count), None, struck)

    @precondition(lambda self: self.world.on_line() and not self._standing())
    @rule(draw=st.data())
    def a_run_goes_back(self, draw):
        commit = draw.draw(st.sampled_from(self.world.on_line()))
        self._restore(self._new_run(1), commit, None)

    @rule(struck=interrupted)
    def a_run_begins_a_new_line(self, struck):
        run = self._new_run(1)
        self._save(run, struck)

    @precondition(lambda self: self._alive())
    @rule(draw=st.data(), struck=interrupted)
    def a_run_saves(self, draw, struck):
        self._save(draw.draw(st.sampled_from(self._alive()), "run"), struck)

    @precondition(lambda self: self._alive())
    @rule()
    def the_newest_run_saves(self):
        self._save(self._alive()[-1], None)

    @precondition(lambda self: self._standing())
    @rule(draw=st.data())
    def a_run_that_stood_still_goes_on(self, draw):
        run = draw.draw(st.sampled_from(self._standing()), "run")
        run.wake()
        self.world.look()
        if run.pending is None:
            run.is_alive = False  # a program that was held up so long: no more of it

    @precondition(lambda self: any(meddler.late for meddler in self._meddlers()))
    @rule(draw=st.data())
    def a_late_request_arrives(self, draw):
        meddler = draw.draw(st.sampled_from([each for each in self._meddlers() if each.late]))
        effect = meddler.late.pop()
        try:
            effect()
        except PreconditionError:
            return
        finally:
            self.world.look()

    @precondition(lambda self: self._traces())
    @rule(draw=st.data(), bit=st.integers(0, 10_000))
    def a_bit_flips(self, draw, bit):
        self.world.rot(draw.draw(st.sampled_from(self._traces()), "key"), bit)

    @precondition(lambda self: self._of_steps())
    @rule(draw=st.data())
    def an_object_vanishes(self, draw):
        self.world.remove(draw.draw(st.sampled_from(self._of_steps()), "key"))
        self.world.look()

    @invariant()
    def the_newest_whole_step_of_the_line_is_restored(self):
        if hasattr(self, "world"):
            self.world.look()
            self.world.read()
            assert self.world.wrong == []

    def teardown(self):
        if not hasattr(self, "world"):
            return
        try:
            for run in self.runs:
                run.bury()
            self.world.look()
            self._nothing_blocks_who_comes_next()
            assert self.world.wrong == []
        finally:
            self.patch.undo()

    def _nothing_blocks_who_comes_next(self):
        run = self._new_run(1)
        self._restore(run, None, None)
        if not run.is_alive:
            run = self._new_run(1)
        for _ in range(self.world.keep + 1):
            self._save(run, None)
        is_doubtful = any(key.startswith("ROLLBACK") for key, _ in self.world.rotten)
        if not is_doubtful:
            assert self._leaked() == set()

    def _restore(self, run: Training, named: Commit | None, struck) -> None:
        self.world.look()
        expected = named or self.world.expected()
        operation = run.restore(None if named is None else named.save.step, struck)
        if run.pending is not None:
            return
        run.is_alive = not operation.errors
        if run.is_struck and not self._is_only_garbled(struck):
            return
        self._check_restored(run, operation, expected)

    def _check_restored(self, run, operation, expected):
        found = operation.results.get(0)
        if operation.errors:
            is_excused = self.world.is_doubtful(expected) or not self._is_whole(expected)
            assert is_excused, (operation.errors, expected)
        elif found is None:
            assert expected is None
            run.last_step = 0
        else:
            self.world.compare(found, expected)
            run.last_step = found.step
            for other in operation.results.values():
                assert other.step == found.step

    def _is_whole(self, commit: Commit | None) -> bool:
        """Whether a run must be able to go on from it; none is fine when nothing counts."""
        if commit is None:
            return not self.world.on_line()
        return self.world.is_whole(commit)

    def _save(self, run: Training, struck) -> None:
        self.world.look()
        is_superseded = self.world.announced > run.fence
        save = self.world.begin_save(run.fence, self._step(run))
        operation = run.save(save, struck)
        if run.pending is not None:
            return
        again = {each for each in self.world.committed if each[1:] == save[1:]}
        if operation.errors:
            run.failed = None if again else save
        else:
            assert again, f"{save} was acknowledged"
            run.failed, run.last_step = None, save.step
        is_dead = any(meddler.is_dead for meddler in run.meddlers)
        # What failed when it began needs a higher fence.
        has_begun = any(each.fence == run.fence for each in self.world.written.values())
        if is_dead or (operation.errors and not has_begun):
            run.is_alive = False
        if is_superseded:
            assert operation.errors
            assert save not in self.world.committed
        elif not run.is_struck or self._is_only_garbled(struck):
            assert not operation.errors or again - {save}, operation.errors

    def _step(self, run: Training) -> int:
        """The one that failed once more, or the next one."""
        if run.failed is not None:
            return run.failed.step
        own = [save.step for save in self.world.saves if save.fence == run.fence]
        return max([run.last_step, *own]) + 10

    def _new_run(self, worker_count: int) -> Training:
        run = Training(self.world, len(self.runs) + 1, worker_count)
        self.runs.append(run)
        return run

    def _alive(self):
        return [run for run in self.runs if run.is_alive and run.pending is None]

    def _standing(self):
        return [run for run in self.runs if run.pending is not None]

    def _meddlers(self):
        return [meddler for run in self.runs for meddler in run.meddlers]

    def _traces(self):
        return [key for key in sorted(self.world.now) if TRACES.fullmatch(key)]

    def _of_steps(self):
        return [key for key in self._traces() if key.startswith("step_")]

    @staticmethod
    def _is_only_garbled(struck) -> bool:
        return struck is not None and struck[1].kind == "garble"

    def _leaked(self):
        """What no step that is there is made of, and no run needs."""
        needed = {FOREIGN}
        for commit in self.world.commits.values():
            needed |= {commit.key, *dict(commit.files)}
            needed.add(f"{commit.key.removesuffix('COMMIT')}BAD_{commit.generation}")
        left = set(self.world.now) - needed
        newest = f"_{self.world.newest_run:016d}"
        fences = {f"a_{commit.save.fence:016d}" for commit in self.world.commits.values()}
        return {
            key
            for key in left
            if not key.startswith("ROLLBACK") and newest not in key
            and not ("/done_" in key and any(fence in key for fence in fences))
        }  # fmt: skip


test_lines = Lines.TestCase
test_lines.settings = settings(stateful_step_count=15)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_thousands_of_lines():
    run_state_machine_as_test(
        Lines, settings=settings(max_examples=2000, stateful_step_count=30, deadline=None)
    )
