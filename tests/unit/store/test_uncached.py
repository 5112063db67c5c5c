"""Memory past the page cache: the same bytes, wherever pieces and sectors begin and end."""

import errno
import fcntl
import itertools
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.store import uncached

ASIDE_BYTES = 8192
EDGES = [0, 1, 4095, 4096, 4097, ASIDE_BYTES - 1, ASIDE_BYTES, ASIDE_BYTES + 1, 3 * ASIDE_BYTES]


@pytest.fixture(autouse=True, scope="module")
def little_memory_aside():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uncached, "_BUFFER_BYTES", ASIDE_BYTES)
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write pieces to a new file; returns its bytes."""
    directory, numbers = tmp_path_factory.mktemp("uncached"), itertools.count()

    def write(*pieces):
        path = directory / str(next(numbers))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        try:
            uncached.write_uncached(descriptor, [memoryview(piece) for piece in pieces])
        finally:
            os.close(descriptor)
        return path.read_bytes()

    return write


def numbered(size_bytes, seed=0):
    return bytes((seed + index * 7) % 251 for index in range(size_bytes))


@pytest.mark.parametrize("size_bytes", EDGES)
def test_a_file_has_the_bytes_and_no_more(written, size_bytes):
    assert written(numbered(size_bytes)) == numbered(size_bytes)


@given(st.lists(st.sampled_from([*EDGES, 5, 1000]), max_size=5))
def test_pieces_follow_one_another(written, sizes):
    pieces = [numbered(size, seed) for seed, size in enumerate(sizes)]
    assert written(*pieces) == b"".join(pieces)


def refusing(monkeypatch, refuses):
    """A file system that says EINVAL to what it does not know; what it was asked to write."""
    write, asked = os.write, []

    def checked(descriptor, data):
        asked.append(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)
        if refuses(asked):
            raise OSError(errno.EINVAL, "Invalid argument")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", checked)
    return asked


def test_a_file_system_that_refuses_direct_writes_gets_others(written, monkeypatch):
    asked = refusing(monkeypatch, lambda asked: asked[-1])
    assert written(numbered(10_000)) == numbered(10_000)
    assert [bool(direct) for direct in asked] == [True, False, False]


def test_a_file_system_that_knows_no_direct_writes_is_not_asked_for_them(written, monkeypatch):
    control = fcntl.fcntl

    def checked(descriptor, command, flags=0):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return control(descriptor, command, flags)

    monkeypatch.setattr(fcntl, "fcntl", checked)
    asked = refusing(monkeypatch, lambda asked: False)
    assert written(numbered(10_000)) == numbered(10_000)
    assert not any(asked)


def test_what_no_write_can_do_is_an_error(written, monkeypatch):
    refusing(monkeypatch, lambda asked: True)
    with pytest.raises(OSError, match="Invalid argument"):
        written(numbered(10_000))


def test_a_write_that_stops_short_goes_on(written, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:4096]))
    assert written(numbered(20_000)) == numbered(20_000)
