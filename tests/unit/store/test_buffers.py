"""Memory as one object: every byte once, in order, and the checksum of each block."""

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.store import Buffers, buffers, crc32c


@pytest.fixture(autouse=True, scope="module")
def small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffers, "PIECE_BYTES", 5)
        yield


def views(*pieces):
    return [memoryview(piece) for piece in pieces]


def in_blocks(data, block_bytes):
    return [
        google_crc32c.value(data[start : start + block_bytes])
        for start in range(0, len(data), block_bytes)
    ]


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(1, 30))
def test_views_are_one_object_in_blocks(pieces, block_bytes):
    source, data = Buffers(views(*pieces), block_bytes), b"".join(pieces)
    assert source.size_bytes == len(data)
    assert b"".join(source.blocks()) == data
    assert source.block_values == in_blocks(data, block_bytes)
    assert source.crc32c == crc32c(data)


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(1, 30))
def test_the_checksums_do_not_wait_for_the_bytes_to_be_asked_for(pieces, block_bytes):
    assert Buffers(views(*pieces), block_bytes).crc32c == crc32c(b"".join(pieces))


def test_the_bytes_come_anew_at_each_call_and_the_checksums_once(monkeypatch):
    taken = []
    extend = google_crc32c.extend
    monkeypatch.setattr(google_crc32c, "extend", lambda *args: taken.append(1) or extend(*args))
    source = Buffers(views(b"0123456789"), 8)
    assert [bytes(piece) for piece in source.blocks()] == [b"01234", b"567", b"89"]
    assert [bytes(piece) for piece in source.blocks()] == [b"01234", b"567", b"89"]
    assert (source.crc32c, len(taken)) == (crc32c(b"0123456789"), 3)


def test_a_pass_that_was_left_does_not_count():
    source = Buffers(views(b"0123456789"), 8)
    next(source.blocks())
    assert source.block_values == in_blocks(b"0123456789", 8)


def test_memory_that_may_not_be_written_is_not_copied():
    array = np.arange(6, dtype=np.uint8)
    array.flags.writeable = False
    (piece, _) = Buffers([memoryview(array)], 100).blocks()
    assert np.shares_memory(np.frombuffer(piece, np.uint8), array)
