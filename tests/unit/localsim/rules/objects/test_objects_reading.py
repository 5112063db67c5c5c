"""An object is read piece by piece, whatever lies in which file."""

from contextlib import closing

import pytest

from localsim.clock import Clock
from localsim.rules.objects.files.incoming_body import INLINE_BYTES
from localsim.rules.objects.storage_model import Hashes, NewObject
from localsim.rules.objects.store import ObjectKey, ObjectStore

KEY = ObjectKey("box", "whole")
FIRST, SECOND, THIRD = b"a" * (INLINE_BYTES + 1), b"bb", b"c" * (INLINE_BYTES + 3)
WHOLE = FIRST + SECOND + THIRD


def sealed(store, data):
    incoming = store.bodies.receive()
    incoming.write(data)
    return store.bodies.seal(incoming, Hashes())


@pytest.fixture(scope="module")
def composed(tmp_path_factory):
    with closing(ObjectStore(tmp_path_factory.mktemp("composed"), Clock())) as store:
        store.buckets.create("p", "box", {})
        with store.database.change():
            body = store.bodies.joined([sealed(store, data) for data in (FIRST, SECOND, THIRD)])
            store.place(NewObject("box", "whole", {}), body, 3)
        yield store


EDGES = (0, 1, len(FIRST), len(FIRST) + 1, len(FIRST) + 2, len(WHOLE) - 1, len(WHOLE))


@pytest.mark.parametrize("start", EDGES)
@pytest.mark.parametrize("end", EDGES)
def test_every_range_is_that_of_the_whole(composed, start, end):
    with composed.open(KEY) as found:
        assert found.read(start, end) == WHOLE[start:end]


def test_only_files_of_the_range_are_opened(composed, monkeypatch):
    opened = []
    open_file = composed.bodies.open
    monkeypatch.setattr(composed.bodies, "open", lambda f: opened.append(f) or open_file(f))
    with composed.open(KEY) as found:
        pieces = [(piece.start, piece.size_bytes) for piece in found.pieces(len(FIRST) + 1)]
    assert pieces == [(1, len(SECOND) - 1), (0, len(THIRD))]
    assert opened == list(found.stored.body_files[1:])


def test_a_range_of_a_small_body(composed):
    with composed.database.change():
        composed.publish(NewObject("box", "small", {}), sealed(composed, b"abcdef"))
    with composed.open(ObjectKey("box", "small")) as found:
        assert (found.read(), found.read(2, 4)) == (b"abcdef", b"cd")
