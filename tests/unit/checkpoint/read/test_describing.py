"""Norms and what is not a number, from blocks, whatever the dtype."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.checkpoint import Checkpointer
from tpuctl.checkpoint.arrays.statistics import ArrayStatistics, measure
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.read.leaf_summaries import LeafSummary, describe_leaves
from tpuctl.checkpoint.read.step_history import read_history, read_manifest
from tpuctl.errors import IntegrityError
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.fixture
def saved():
    bucket = MemoryBucket()
    arrays = {
        "a": np.full((3, 4), 2, np.float32),
        "b": np.array([3, 4, np.nan, np.inf, -np.inf], ml_dtypes.bfloat16),
        "flags": np.ones(3, bool),
        "none": np.zeros((0, 3), np.int8),
        "z": np.array([-7, 1, 2], ml_dtypes.int4),
    }
    with Checkpointer(MemoryStore(bucket), 0, 1, fence=1) as alone:
        alone.save(1, arrays)
    return bucket


def described(bucket, **options):
    store = MemoryStore(bucket)
    (step,) = read_history(store).steps
    return list(describe_leaves(store, read_manifest(store, step), **options))


def test_each_leaf_is_described(saved):
    read = []
    assert described(saved, advance=read.append) == [
        LeafSummary("a", "float32", (3, 4), pytest.approx(math.sqrt(48)), 0, 0),
        LeafSummary("b", "bfloat16", (5,), 5.0, 1, 2),
        LeafSummary("flags", "bool", (3,), None, 0, 0),
        LeafSummary("none", "int8", (0, 3), 0.0, 0, 0),
        LeafSummary("z", "int4", (3,), pytest.approx(math.sqrt(54)), 0, 0),
    ]
    assert sum(read) == len(saved.objects[layout.shard_key(1, 1, 0, 1, 0)][1])


def test_nothing_is_said_of_bytes_that_are_not_those_that_were_written(saved):
    key = layout.shard_key(1, 1, 0, 1, 0)
    saved.rot(key, saved.objects[key][1][:-1] + b"\x01")
    with pytest.raises(IntegrityError, match=f"^{key}: "):
        described(saved)


@given(
    st.sampled_from(
        ["float32", "float16", "int64", "uint8", "complex64", "bfloat16", "float8_e5m2"]
    ),
    st.integers(0, 60),
    st.lists(st.integers(0, 500), max_size=4),
    st.randoms(use_true_random=False),
)
def test_blocks_may_end_anywhere(dtype, count, cuts, random):
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    data = random.randbytes(count * kind.itemsize)
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in zip(ends, ends[1:], strict=False)]
    found = measure(dtype, pieces)
    with np.errstate(all="ignore"):
        wide = np.frombuffer(data, kind).astype(np.complex128 if kind.kind == "c" else np.float64)
    assert found.nan == np.isnan(wide).sum()
    assert found.inf == np.isinf(wide).sum()
    expected = math.hypot(*np.abs(wide[np.isfinite(wide)]).tolist())
    assert found.norm == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "norm"),
    [([3e200, 4e200], 5e200), ([3e-200, 4e-200], 5e-200), ([1.7e308, 1.7e308], None), ([], 0.0)],
)
def test_squares_neither_overflow_nor_vanish(values, norm):
    found = measure("float64", [np.array(values).tobytes()])
    assert found.norm == (norm if norm is None else pytest.approx(norm))


def test_parts_of_an_array_are_joined():
    first, second = ArrayStatistics("float32"), ArrayStatistics("float32")
    first.add(np.array([3, np.nan], np.float32).tobytes())
    second.add(np.array([4, np.inf], np.float32).tobytes())
    first.join(second)
    assert (first.norm, first.nan, first.inf) == (5.0, 1, 1)
