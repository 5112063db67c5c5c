"""Each step is sealed as its marker appears, for as long as somebody watches."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tpuctl.errors import OutcomeUnknownError, PermissionDeniedError, TransientError
from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.seal import POLL_S, watch_and_seal
from tpuctl.operations.checkpoints.verify import find_differences
from unit.checkpoint.memory_store import MemoryBucket
from unit.operations.checkpoints.stored_checkpoints import SAVED_S, Bucket, in_bucket


class Watched:
    """A watch whose sleep does what happens meanwhile; `sealed` is what it told, by the look."""

    def __init__(self, store: Bucket, *meanwhile: Callable[[], object]) -> None:
        self.store = store
        self.sealed: list[tuple[int, str]] = []
        self.troubles: list[str] = []
        self.looks = 0
        self._meanwhile = iter(meanwhile)

    def run(self) -> "Watched":
        try:
            for step in self._steps():
                self.sealed.append((self.looks, step.view.name))
        except KeyboardInterrupt:
            return self
        raise AssertionError("a watch does not end by itself")

    def _steps(self) -> Iterator[foreign_steps.ForeignStep]:
        clock = itertools.count(SAVED_S)
        return watch_and_seal(
            self.store.url,
            lambda _: self.store,
            clock=lambda: next(clock),
            sleep=self._sleep,
            trouble=lambda error: self.troubles.append(str(error)),
        )

    def _sleep(self, seconds: float) -> None:
        assert seconds == POLL_S
        self.looks += 1
        try:
            next(self._meanwhile)()
        except StopIteration as error:
            raise KeyboardInterrupt from error


def copied(store: Bucket, step: str, *last: str) -> Callable[[], None]:
    """What puts a step of the stored checkpoints into a bucket, these objects at the end."""
    source = in_bucket("orbax")

    def put() -> None:
        keys = [each.key for each in source.list(f"{step}/") if each.key not in last]
        for key in (*keys, *last):
            store.put_if_absent(key, source.get_range(key))

    return put


def nothing() -> None:
    """Nobody writes anything."""


def test_what_is_complete_is_sealed_at_once_and_what_is_not_when_it_is():
    store = in_bucket("orbax", without=("200/commit_success.txt",))
    marker = in_bucket("orbax").get_range("200/commit_success.txt")
    watched = Watched(
        store, nothing, lambda: store.put_if_absent("200/commit_success.txt", marker), nothing
    ).run()
    assert watched.sealed == [(0, "100"), (2, "200")]
    for step in foreign_steps.find_foreign_steps(store.url, lambda _: store)[:2]:
        assert find_differences(step) == []


def test_a_step_that_appears_is_sealed():
    store = Bucket(MemoryBucket())
    assert Watched(store, nothing, copied(store, "100", "100/commit_success.txt")).run().sealed == [
        (2, "100")
    ]


def test_what_was_written_behind_the_marker_waits_until_it_stays_as_it_is():
    store = Bucket(MemoryBucket())
    late = copied(store, "100", "100/commit_success.txt", "100/default/_METADATA")
    assert Watched(store, late, nothing).run().sealed == [(2, "100")]


def test_a_folder_without_a_marker_waits_until_it_stays_as_it_is():
    """Others put files beside the model when it is complete."""
    store = in_bucket("safetensors")
    more = iter(("optimizer.pt", "trainer_state.json"))

    def add() -> None:
        store.put_if_absent(f"checkpoint-100/{next(more)}", b"more")

    assert Watched(store, add, add, nothing).run().sealed == [(3, "checkpoint-100")]


def test_nothing_is_sealed_twice_and_nothing_known_is_read_again():
    store = in_bucket("orbax")
    counts = []
    Watched(store, *[lambda: counts.append(len(store.requests))] * 4).run()
    # The second look reads both seals, and what their steps say; from then on a look is a listing.
    assert [after - before for before, after in itertools.pairwise(counts)] == [5, 1, 1]


@pytest.mark.parametrize(
    ("verb", "error"), [("list", TransientError("503")), ("put", OutcomeUnknownError("no answer"))]
)
def test_a_look_that_fails_for_a_moment_is_made_again(verb, error):
    failures = iter([error])

    def around(request, effect):
        if request.verb == verb and (failure := next(failures, None)):
            raise failure
        return effect()

    store = in_bucket("dcp")
    store.around = around
    watched = Watched(store, nothing).run()
    assert (watched.sealed, watched.troubles) == ([(1, "step-100")], [str(error)])


def test_what_will_not_pass_ends_the_watch():
    def refused(_request, _effect):
        raise PermissionDeniedError("403")

    store = in_bucket("dcp")
    store.around = refused
    with pytest.raises(PermissionDeniedError):
        Watched(store, nothing).run()


def test_a_step_that_is_deleted_while_it_is_sealed_is_let_go():
    store = in_bucket("dcp")

    def around(request, effect):
        if request.verb == "list" and request.key == "step-100/":
            store.bucket.objects.clear()
        return effect()

    store.around = around
    assert Watched(store, nothing, nothing).run().sealed == []
