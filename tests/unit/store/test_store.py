"""The seven calls, the same examples over a directory and over a bucket on a real socket."""

import io

import numpy as np
import pytest

from tpuctl.errors import IntegrityError, NotFoundError, PreconditionError, UsageError
from tpuctl.store import Buffers, crc32c, open_store

pytest_plugins = ("unit.store.served_bucket",)


def keys(store, prefix=""):
    return [entry.key for entry in store.list(prefix)]


def test_what_is_put_is_read_back(store):
    entry = store.put_if_absent("a/b", b"hello")
    assert (entry.key, entry.size_bytes, entry.crc32c) == ("a/b", 5, crc32c(b"hello"))
    assert store.get_range("a/b") == b"hello"
    assert store.head("a/b") == entry


def test_nothing_is_an_answer(store):
    assert store.head("a") is None
    assert keys(store) == []
    assert store.delete("a") is False
    with pytest.raises(NotFoundError):
        store.get_range("a")


def test_absent_means_absent(store):
    store.put_if_absent("a", b"1")
    with pytest.raises(PreconditionError):
        store.put_if_absent("a", b"2")
    assert store.get_range("a") == b"1"


def test_a_generation_is_replaced_once(store):
    first = store.put_if_absent("a", b"1")
    second = store.put_if_generation("a", b"2", first.generation)
    assert second.generation != first.generation
    with pytest.raises(PreconditionError):
        store.put_if_generation("a", b"3", first.generation)
    assert store.get_range("a") == b"2"


def test_a_generation_of_nothing_cannot_be_replaced(store):
    with pytest.raises(PreconditionError):
        store.put_if_generation("a", b"1", 7)
    assert store.head("a") is None


def test_a_name_used_again_has_another_generation(store):
    first = store.put_if_absent("a", b"1")
    assert store.delete("a", generation=first.generation)
    assert store.put_if_absent("a", b"1").generation != first.generation


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, None, b"0123456789"), (3, None, b"3456789"), (0, 4, b"0123"), (2, 5, b"234")]
    + [(4, 4, b""), (8, 99, b"89"), (10, None, b""), (10, 12, b"")],
)
def test_ranges_end_before_their_end(store, start, end, expected):
    store.put_if_absent("a", b"0123456789")
    assert store.get_range("a", start, end) == expected


def test_a_read_of_a_generation_that_was_replaced_finds_nothing(store):
    first = store.put_if_absent("a", b"1")
    second = store.put_if_generation("a", b"2", first.generation)
    assert store.get_range("a", generation=second.generation) == b"2"
    with pytest.raises(NotFoundError):
        store.get_range("a", generation=first.generation)


def test_a_list_is_by_prefix_and_in_order(store):
    for key in ("step_2/b", "step_10/a", "step_2/a", "other"):
        store.put_if_absent(key, b"")
    assert keys(store) == ["other", "step_10/a", "step_2/a", "step_2/b"]
    assert keys(store, "step_2") == ["step_2/a", "step_2/b"]
    assert keys(store, "step_2/b") == ["step_2/b"]
    assert [entry.size_bytes for entry in store.list("other")] == [0]


def test_a_deletion_names_its_generation(store):
    first = store.put_if_absent("a", b"1")
    store.put_if_generation("a", b"2", first.generation)
    with pytest.raises(PreconditionError):
        store.delete("a", generation=first.generation)
    assert store.delete("a") is True
    assert store.delete("a", generation=first.generation) is False
    assert keys(store) == []


def test_a_file_is_put_from_its_beginning(store):
    file = io.BytesIO(bytes(range(256)) * 40_000)
    file.seek(4)
    entry = store.put_if_absent("a", file)
    assert (entry.size_bytes, entry.crc32c) == (10_240_000, crc32c(bytes(range(256)) * 40_000))
    assert store.get_range("a", 256, 260) == bytes([0, 1, 2, 3])


def test_a_file_that_cannot_be_read_twice_is_refused(store):
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    with pytest.raises(UsageError):
        store.put_if_absent("a", Pipe(b"1"))


def test_memory_is_put_as_it_lies(store):
    weights = np.arange(1_000_000, dtype=np.float32)
    views = [memoryview(b"header"), memoryview(b""), memoryview(weights.view(np.uint8))]
    data = b"header" + weights.tobytes()
    entry = store.put_if_absent("a/b", Buffers(views, 100_000))
    assert (entry.size_bytes, entry.crc32c) == (len(data), crc32c(data))
    assert store.head("a/b") == entry
    assert store.get_range("a/b") == data


def test_no_memory_at_all_is_an_empty_object(store):
    entry = store.put_if_absent("a", Buffers([], 8))
    assert (entry.size_bytes, entry.crc32c) == (0, crc32c(b""))
    assert store.get_range("a") == b""


def test_memory_is_put_under_a_condition_too(store):
    first = store.put_if_absent("a", b"1")
    source = Buffers([memoryview(b"2")], 8)
    with pytest.raises(PreconditionError):
        store.put_if_absent("a", source)
    store.put_if_generation("a", source, first.generation)
    assert store.get_range("a") == b"2"


@pytest.mark.parametrize(("start", "size"), [(0, 10), (3, 4), (9, 1), (4, 0), (10, 0)])
def test_a_buffer_is_filled_from_anywhere(store, start, size):
    entry = store.put_if_absent("a", b"0123456789")
    buffer = memoryview(bytearray(b"." * size))
    store.read_into("a", start, buffer, generation=entry.generation)
    assert bytes(buffer) == b"0123456789"[start : start + size]


@pytest.mark.parametrize(("start", "size"), [(0, 11), (8, 3), (10, 1), (20, 1)])
def test_an_object_that_ends_before_the_buffer_is_damaged(store, start, size):
    entry = store.put_if_absent("a", b"0123456789")
    with pytest.raises(IntegrityError):
        store.read_into("a", start, memoryview(bytearray(size)), generation=entry.generation)


def test_a_buffer_is_filled_from_one_generation_only(store):
    first = store.put_if_absent("a", b"1")
    store.put_if_generation("a", b"2", first.generation)
    buffer = memoryview(bytearray(1))
    for key, generation in (("a", first.generation), ("b", first.generation)):
        with pytest.raises(NotFoundError):
            store.read_into(key, 0, buffer, generation=generation)
    assert bytes(buffer) == b"\0"


@pytest.mark.parametrize("address", ["", "s3://box/runs", "file:///runs", "gs:/box", "GS://box"])
def test_what_is_no_place_is_refused(address):
    with pytest.raises(UsageError, match="not a place to store"):
        open_store(address)
