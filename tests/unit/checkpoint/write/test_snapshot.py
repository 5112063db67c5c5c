"""The own boxes of a tree in files: copied once, or as they lie."""

import numpy as np
import pytest

from tpuctl.checkpoint.arrays.array_tree import flatten, leaf_paths
from tpuctl.checkpoint.arrays.boxes import Box
from tpuctl.checkpoint.write import snapshot
from tpuctl.checkpoint.write.snapshot import (
    CopyBuffers,
    copy_pieces,
    pieces,
    share_bytes,
    split_to_file_size,
    view_pieces,
)


@pytest.fixture
def small_files(monkeypatch):
    """Files of at most 256 bytes."""
    monkeypatch.setattr(snapshot, "FILE_BYTES", 256)


def found(tree, worker_id=0, worker_count=1):
    structure, leaves = flatten(tree)
    return pieces(leaves, leaf_paths(structure), worker_id, worker_count)


def contents(files):
    return [{each.tensor.name: each.array.tobytes() for each in file.stored} for file in files]


TREE = {
    "bytes": np.arange(5, dtype=np.uint8),
    "columns": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "swapped": np.arange(3, dtype=">i4"),
    "wide": np.arange(3.0),
}


@pytest.mark.parametrize("take", [lambda own: copy_pieces(own, CopyBuffers()), view_pieces])
def test_a_file_has_the_elements_in_c_order_little_endian_wide_ones_first(take):
    (file,) = contents(take(found(TREE)))
    assert list(file) == ["wide", "columns", "swapped", "bytes"]
    assert file["columns"] == np.ascontiguousarray(TREE["columns"]).tobytes()
    assert file["swapped"] == TREE["swapped"].astype("<i4").tobytes()


def test_a_copy_stays_as_it_was_and_a_view_does_not():
    array = np.ones(4)
    copies, views = copy_pieces(found([array]), CopyBuffers()), view_pieces(found([array]))
    array[:] = 2
    assert contents(copies) == [{"0": np.ones(4).tobytes()}]
    assert contents(views) == [{"0": array.tobytes()}]


def test_the_same_memory_serves_the_next_save():
    memory = CopyBuffers()
    first = copy_pieces(found(TREE), memory)
    addresses = [each.array.ctypes.data for each in first[0].stored]
    second = copy_pieces(found(TREE), memory)
    assert [each.array.ctypes.data for each in second[0].stored] == addresses


def test_memory_that_was_taken_beside_the_program_serves_the_first_save(small_files):
    memory = CopyBuffers()
    memory.warm(100)
    memory._warming.join()
    taken = [chunk.ctypes.data for chunk in memory._chunks]
    files = copy_pieces(found([np.full(16, n, np.float64) for n in range(5)]), memory)
    assert [each.stored[0].array.ctypes.data for each in files][: len(taken)] == taken
    before = contents(files)
    memory.warm(100)
    assert contents(files) == before, "what is being saved is left alone"


def test_the_pages_of_about_a_workers_share_are_taken():
    leaves, total = flatten(TREE)[1], sum(each.nbytes for each in TREE.values())
    assert share_bytes(leaves, 1) == total
    assert share_bytes(leaves, 4) == -(-total // 4)


@pytest.mark.parametrize("take", [lambda own: copy_pieces(own, CopyBuffers()), view_pieces])
def test_files_are_filled_up_to_their_size(small_files, take):
    files = take(found([np.full(16, n, np.float64) for n in range(5)]))
    assert [list(file) for file in contents(files)] == [["0", "1"], ["2", "3"], ["4"]]


@pytest.mark.parametrize("take", [lambda own: copy_pieces(own, CopyBuffers()), view_pieces])
def test_a_leaf_that_is_larger_than_a_file_is_cut(small_files, take):
    array = np.arange(100.0).reshape(10, 10)
    files = take(found({"w": array}))
    assert [list(file) for file in contents(files)] == [
        ["w[0:3,0:10]"],
        ["w[3:6,0:10]"],
        ["w[6:8,0:10]"],
        ["w[8:10,0:10]"],
    ]
    assert (
        b"".join(each.array.tobytes() for file in files for each in file.stored) == array.tobytes()
    )


def test_a_long_row_is_cut_within(small_files):
    boxes = list(split_to_file_size(Box((0, 0), (2, 100)), "float64"))
    assert sum(box.size for box in boxes) == 200
    assert all(box.size * 8 <= 256 for box in boxes)
    assert boxes[0] == Box((0, 0), (1, 25))


def test_each_worker_has_its_rows():
    array = np.arange(40_002.0).reshape(20_001, 2)
    first, second = (
        contents(view_pieces(found({"w": array}, worker_id, 2))) for worker_id in range(2)
    )
    assert first == [{"w[0:10001,0:2]": array[:10001].tobytes()}]
    assert second == [{"w[10001:20001,0:2]": array[10001:].tobytes()}]
