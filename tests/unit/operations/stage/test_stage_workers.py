"""Which objects of a bucket go to workers, and where."""

import pytest

from tpuctl.errors import NotFoundError
from tpuctl.operations.stage.workers.staging import FetcherEvents, place_objects
from unit.operations.checkpoints.memory_bucket import MemoryBucket


@pytest.fixture
def stocked():
    bucket = MemoryBucket()
    for key in ("a", "set/", "set/deep/", "set/deep/a", "sets", "tpuctl/parts/0/0-1-00000000"):
        bucket.put(key, b"" if key.endswith("/") else b"1")
    return bucket


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        ("set", "data", ("data", ["deep/a"])),
        ("set/", "data/", ("data/", ["deep/a"])),
        ("", "data", ("data", ["a", "set/deep/a", "sets"])),
        ("set/deep/a", "data/", ("data/", ["a"])),
        ("set/deep/a", "data/b", ("data", ["b"])),
    ],
)
def test_objects_have_their_places(stocked, name, target, expected):
    root, objects = place_objects(stocked, name, target)
    assert (root, list(objects)) == expected


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (143, "the fetcher was ended by SIGTERM, as when a slice is about to be preempted"),
        (2, "the fetcher ended with exit status 2: no python3"),
    ],
)
def test_a_fetcher_that_ends_without_a_word_of_its_own_is_explained(status, error):
    assert FetcherEvents(None).delivery(1, status, "no python3").error == error


def test_nothing_is_an_error(stocked):
    with pytest.raises(NotFoundError):
        place_objects(stocked, "se", "data")
