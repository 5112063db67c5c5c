"""Which blocks are read for the boxes that are needed, and that every element ends in its place."""

import base64
import itertools

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.checkpoint.arrays.boxes import Box, whole_box
from tpuctl.checkpoint.arrays.dtypes import DTYPES, raw_dtype, size_bytes, write_into
from tpuctl.checkpoint.format.commit_schema import Commit, Leaf, Part, StoredObject
from tpuctl.checkpoint.read import block_reader as blocks_module
from tpuctl.checkpoint.read import ranges
from tpuctl.checkpoint.read.block_reader import BlockReader
from tpuctl.checkpoint.read.targets import ReadTarget
from tpuctl.errors import IntegrityError
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore


@pytest.fixture(autouse=True)
def nothing_is_too_small(monkeypatch):
    """Else all that is small enough for a test would be read aside."""
    monkeypatch.setattr(blocks_module, "_DIRECT_BYTES", 4)


@st.composite
def boxes(draw, within):
    """Any box of a box, none of its extents 0."""
    starts = [draw(st.integers(0, length - 1)) for length in within.shape]
    extents = [
        draw(st.integers(1, length - start))
        for start, length in zip(starts, within.shape, strict=True)
    ]
    return Box(tuple(map(sum, zip(within.offset, starts, strict=True))), tuple(extents))


@st.composite
def parts_of(draw, shape):
    """An array cut along all of its axes, in any order."""
    cuts = [
        sorted({0, length, *draw(st.sets(st.integers(1, length), max_size=2))}) for length in shape
    ]
    axes = [list(itertools.pairwise(each)) for each in cuts]
    cut = [
        Box(tuple(start for start, _ in ends), tuple(end - start for start, end in ends))
        for ends in itertools.product(*axes)
    ]
    return draw(st.permutations(cut))


@st.composite
def arrays(draw):
    """An array as it is stored, and which boxes of it are needed."""
    shape = tuple(draw(st.lists(st.integers(1, 7), max_size=4)))
    dtype = draw(st.sampled_from(["float32", "int8", "bfloat16", "int4", "complex64"]))
    parts = draw(parts_of(shape))
    needed = draw(st.lists(boxes(whole_box(shape)), max_size=3))
    return shape, dtype, parts, needed


class Stored:
    """Arrays in one object, with a gap before each part; small blocks."""

    def __init__(self, described, block_bytes, gap):
        self.values, leaves, body = [], [], bytearray()
        for index, (shape, dtype, parts, _) in enumerate(described):
            value = self._value(index, shape, dtype)
            placed = []
            for box in parts:
                body += bytes(gap)
                placed.append(Part(0, len(body), box))
                buffer = np.empty(size_bytes(dtype, box.size), np.uint8)
                write_into(buffer, dtype, np.ascontiguousarray(value[(*box.slices, ...)]))
                body += buffer.tobytes()
            self.values.append(value)
            leaves.append(Leaf(dtype, shape, None, tuple(placed)))
        self.bucket = MemoryBucket()
        self.store = MemoryStore(self.bucket)
        entry = self.store.put_if_absent("file", bytes(body))
        self.body, self.block_bytes = bytes(body), block_bytes
        sums = [google_crc32c.value(self.block(n)) for n in range(-(-len(body) // block_bytes))]
        text = base64.b64encode(b"".join(each.to_bytes(4, "big") for each in sums)).decode()
        stored = StoredObject("file", len(body), entry.generation, entry.crc32c, text)
        self.commit = commit_of(leaves, [stored], block_bytes)

    def _value(self, index, shape, dtype):
        if DTYPES[dtype].bits < 8:
            return np.random.default_rng(index).integers(0, 16, shape, np.uint8)
        raw = raw_dtype(dtype)
        data = np.random.default_rng(index).integers(0, 256, (*shape, raw.itemsize), np.uint8)
        return data.reshape(-1).view(raw).reshape(shape)

    def block(self, number):
        return self.body[number * self.block_bytes : (number + 1) * self.block_bytes]

    def read(self, needed):
        """The arrays of the needed boxes of each leaf."""
        targets = [
            ReadTarget(tuple(found), raw_dtype(leaf.dtype), tuple)
            for leaf, found in zip(self.commit.leaves, needed, strict=True)
        ]
        memory = ranges.allocate(targets)
        BlockReader(self.store, self.commit).fill(
            ranges.needed_blocks(self.commit, targets, memory)
        )
        return memory

    def flip(self, position):
        data = bytearray(self.body)
        data[position] ^= 16
        self.bucket.rot("file", bytes(data))

    def blocks_of(self, needed):
        """Which blocks hold a byte of what is needed, element by element."""
        found = set()
        for leaf, wanted in zip(self.commit.leaves, needed, strict=True):
            bits = DTYPES[leaf.dtype].bits
            for part, box in itertools.product(leaf.parts, wanted):
                places = np.arange(part.box.size).reshape(part.box.shape)
                if (common := part.box.overlap(box)) is None:
                    continue
                for place in places[(*common.within(part.box), ...)].reshape(-1).tolist():
                    first, last = place * bits // 8, ((place + 1) * bits - 1) // 8
                    at = range(part.start + first, part.start + last + 1)
                    found |= {byte // self.block_bytes for byte in at}
        return found


def commit_of(leaves, objects, block_bytes):
    return Commit(
        1, 1, -1, -1, -1, 1, "", 0, "", "", "", 0, 0, block_bytes, {}, tuple(leaves), tuple(objects)
    )


@given(st.lists(arrays(), min_size=1, max_size=3), st.integers(5, 64), st.integers(0, 9))
def test_every_box_is_read_from_whatever_parts_there_are(described, block_bytes, gap):
    stored = Stored(described, block_bytes, gap)
    needed = [each[3] for each in described]
    for value, wanted, found in zip(stored.values, needed, stored.read(needed), strict=True):
        for box, array in zip(wanted, found, strict=True):
            assert array.tobytes() == value[(*box.slices, ...)].tobytes()


@given(arrays(), st.integers(5, 64), st.data())
def test_a_flipped_bit_is_found_where_it_could_matter_and_nothing_else_is_read(
    described, block_bytes, data
):
    stored = Stored([described], block_bytes, 3)
    needed = [described[3]]
    position = data.draw(st.integers(0, len(stored.body) - 1))
    stored.flip(position)
    if position // block_bytes in stored.blocks_of(needed):
        with pytest.raises(IntegrityError, match="^file: its bytes are not those that were comm"):
            stored.read(needed)
    else:
        stored.read(needed)


def test_a_column_of_a_wide_array_takes_its_own_blocks_only():
    rows, columns = whole_box((8, 100)), Box((0, 40), (8, 3))
    stored = Stored([((8, 100), "float32", [rows], [columns])], 50, 0)
    (found,), wanted = stored.read([[columns]]), stored.blocks_of([[columns]])
    assert found[0].tobytes() == stored.values[0][:, 40:43].tobytes()
    assert len(wanted) < len(stored.body) // 50 // 2
    in_order = sorted(
        {request.number for request in stored.store.requests if request.verb == "read"}
    )
    assert len(in_order) == len(wanted)


def test_what_belongs_together_is_read_straight_into_its_place():
    stored = Stored([((4, 8), "float32", [whole_box((4, 8))], [whole_box((4, 8))])], 64, 10)
    targets = [ReadTarget((whole_box((4, 8)),), np.dtype("<f4"), tuple)]
    memory = ranges.allocate(targets)
    (first, *_) = ranges.needed_blocks(stored.commit, targets, memory)
    (want,) = first.overlaps
    direct = want.direct()
    assert direct.span == (10, 10 + 4 * 8 * 4)
    assert np.shares_memory(direct.memory, memory[0][0])


def test_bytes_that_come_wrong_once_are_asked_for_again():
    stored = Stored([((9,), "int8", [whole_box((9,))], [])], 4, 0)
    spoilt = []

    def around(request, effect):
        data = effect()
        if request.verb == "read" and len(spoilt) < 1:
            spoilt.append(request)
            return bytes(len(data))
        return data

    stored.store = MemoryStore(stored.bucket, around)
    assert stored.read([[whole_box((9,))]])[0][0].tobytes() == stored.values[0].tobytes()
    assert len(stored.store.requests) == 4
    assert spoilt


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda bucket: bucket.rot("file", b""), "file: its bytes are not those"),
        (lambda bucket: bucket.objects.clear(), "file: missing, or replaced"),
        (
            lambda bucket: MemoryStore(bucket).put_if_generation("file", b"", 1001),
            "file: missing, ",
        ),
    ],
)
def test_an_object_that_is_not_there_is_no_other(damage, reason):
    stored = Stored([((9,), "int8", [whole_box((9,))], [])], 4, 0)
    damage(stored.bucket)
    with pytest.raises(IntegrityError, match=reason):
        stored.read([[whole_box((9,))]])


@given(st.lists(st.integers(1, 5), max_size=4), st.data())
def test_a_run_of_elements_is_boxes_that_follow_one_another(shape, data):
    box = Box(tuple(data.draw(st.integers(0, 9)) for _ in shape), tuple(shape))
    first = data.draw(st.integers(0, box.size))
    count = data.draw(st.integers(0, box.size - first))
    places = np.arange(box.size).reshape(shape)
    found = [
        place
        for each in ranges.contiguous_boxes(box, first, count)
        for place in places[(*each.within(box), ...)].reshape(-1).tolist()
    ]
    assert found == list(range(first, first + count))


def test_an_array_may_have_all_the_axes_that_numpy_allows():
    shape = (*[1] * 15, 3, *[1] * 15, 2)
    stored = Stored([(shape, "float32", [whole_box(shape)], [])], 8, 1)
    (found,) = stored.read([[whole_box(shape)]])
    assert found[0].tobytes() == stored.values[0].tobytes()


def test_an_array_that_cannot_be_was_never_saved():
    shape = (2**40, 2**40, 0)
    targets = [ReadTarget((whole_box(shape),), np.dtype("<f4"), tuple)]
    with pytest.raises(IntegrityError, match="^COMMIT describes an array that cannot exist"):
        ranges.allocate(targets)
