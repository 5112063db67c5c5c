"""Changes that come together share one flush, and nobody is answered before it."""

import asyncio
from contextlib import closing, contextmanager
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from localsim.clock import Clock
from localsim.group_commit import GroupCommit
from localsim.rules.objects.files import object_database as objects_database
from localsim.rules.objects.files.incoming_body import INLINE_BYTES
from localsim.rules.objects.storage_model import Hashes, NewObject, Preconditions, StorageError
from localsim.rules.objects.store import ObjectKey, ObjectStore

BIG = b"x" * (INLINE_BYTES + 1)


class Store(ObjectStore):
    """A store that counts its flushes, and can be told to hold them back or to fail them."""

    def __init__(self, directory):
        super().__init__(directory, Clock())
        self.directory = directory
        self.flushes = 0
        self.before_flush = lambda: None
        self._commit = self.database.commit
        self.database.commit = self._flush

    def _flush(self):
        self.flushes += 1
        self.before_flush()
        self._commit()

    def put(self, name, data=b"", **preconditions):
        """What a request does to write an object, ready to be run."""
        incoming = self.bodies.receive()
        incoming.write(data)
        new = NewObject("box", name, {}, Preconditions(**preconditions))
        body = self.bodies.seal(incoming, Hashes())
        return lambda: self.publish(new, body)

    def files(self):
        return sorted(path.name for path in self.directory.glob("objects/*/*"))


@pytest.fixture
def store(tmp_path):
    with closing(Store(tmp_path)) as found:
        found.buckets.create("p", "box", {})
        found.flushes = 0
        yield found


@contextmanager
def full_disk(store):
    """The database of the store does not grow any more."""
    soft, hard = getrlimit(RLIMIT_FSIZE)
    log = store.directory / "objects.sqlite-wal"
    setrlimit(RLIMIT_FSIZE, (log.stat().st_size, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))


def group_commit(store):
    """As the service makes it."""
    database = store.database
    return GroupCommit(database.batch, database.commit, blocks=lambda: database.has_changed)


async def together(store, *actions):
    """What comes of actions that are asked for at the same time."""
    commits = group_commit(store)
    return await asyncio.gather(
        *(commits.run(action) for action in actions), return_exceptions=True
    )


def test_changes_at_the_same_time_share_a_flush(store):
    stored = asyncio.run(together(store, *(store.put(str(number)) for number in range(20))))
    assert [found.name for found in stored] == [str(number) for number in range(20)]
    assert (store.flushes, store.count()) == (1, 20)


def test_one_of_many_creations_wins(store):
    creations = [store.put("a", BIG, generation_match=0) for _ in range(16)]
    found = asyncio.run(together(store, *creations))
    winners = [each for each in found if not isinstance(each, StorageError)]
    refusals = [each.code for each in found if isinstance(each, StorageError)]
    assert refusals == [412] * 15
    assert store.get(ObjectKey("box", "a")) == winners[0]
    assert store.files() == list(winners[0].body_files)


def test_a_change_that_comes_during_a_flush_is_seen_by_nobody_and_waits_for_the_next(store):
    async def story():
        loop, commits = asyncio.get_running_loop(), group_commit(store)
        flushing, go_on = asyncio.Event(), asyncio.Event()

        def hold():
            loop.call_soon_threadsafe(flushing.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()

        store.before_flush = hold
        first = asyncio.create_task(commits.run(store.put("a")))
        await flushing.wait()
        second = asyncio.create_task(commits.run(store.put("b")))
        assert store.count() == 0
        go_on.set()
        await first
        assert store.count() == 1
        assert not second.done()
        await second
        assert (store.count(), store.flushes) == (2, 2)

    asyncio.run(story())


def test_who_does_not_wait_any_more_has_changed_the_store_all_the_same(store):
    async def story():
        commits = group_commit(store)
        gone = asyncio.create_task(commits.run(store.put("a")))
        await asyncio.sleep(0)
        gone.cancel()
        await commits.run(store.put("b"))

    asyncio.run(story())
    assert store.count() == 2


def test_a_full_disk_refuses_everybody_and_leaves_store_and_files_as_they_were(store):
    before = asyncio.run(together(store, store.put("old", BIG)))
    actions = [
        store.put("new", BIG),
        store.put("small", b"abc"),
        store.put("old", BIG),
        lambda: store.delete(ObjectKey("box", "old")),
        lambda: store.uploads.start(NewObject("box", "x", {})),
    ]
    with full_disk(store):
        found = asyncio.run(together(store, *actions))
    assert [error.code for error in found] == [507] * 5
    assert store.files() == list(before[0].body_files)
    assert list((store.directory / "incoming").iterdir()) == []
    with store.open(ObjectKey("box", "old")) as old:
        assert (old.stored, old.read()) == (before[0], BIG)
    assert store.count() == 1
    asyncio.run(together(store, store.put("new", BIG)))
    assert store.count() == 2


def test_nothing_is_flushed_for_refusals(store, monkeypatch):
    synchronized = []
    monkeypatch.setattr(objects_database, "synchronize", synchronized.append)
    refused = [store.put(name, BIG, generation_match=7) for name in "ab"]
    found = asyncio.run(together(store, *refused))
    assert [error.code for error in found] == [412] * 2
    assert (store.count(), store.files(), synchronized) == (0, [], [])
    asyncio.run(together(store, store.put("c", BIG)))
    assert synchronized == [next(store.directory.glob("objects/*/*")).parent]
