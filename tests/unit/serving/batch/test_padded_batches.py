"""Batches of few shapes, and the rows of a batch that fails."""

import numpy as np
import pytest

from tpuctl.errors import JobFailedError
from tpuctl.serving.batch.formats.file_format import UnitRows
from tpuctl.serving.batch.padded_batches import PaddedBatches


def rows_of(count):
    return UnitRows({"x": np.arange(count)}, np.arange(100, 100 + count))


@pytest.mark.parametrize("count", [0, 1, 5, 16, 17, 50])
def test_rows_come_back_in_order_whatever_the_shapes(count):
    seen = []

    def predict(batch):
        seen.append(len(batch["x"]))
        return {"y": batch["x"] + 1}

    batches = PaddedBatches(predict, 16)
    found = batches.predict_rows(rows_of(count))
    assert found.rows == count
    if count:
        assert found.columns["y"].tolist() == list(range(1, count + 1))
    assert found.columns["row"].tolist() == list(range(100, 100 + count))
    assert set(seen) == batches.shapes <= {1, 2, 4, 8, 16}


@pytest.mark.parametrize("bad", [{0}, {3, 4}, {15, 16, 49}, set(range(0, 50, 7)), set(range(50))])
def test_the_rows_that_fail_are_found(bad):
    def predict(batch):
        if set(batch["x"].tolist()) & bad:
            raise JobFailedError("bad")
        return {"y": batch["x"]}

    found = PaddedBatches(predict, 16).predict_rows(rows_of(50))
    assert {each.row - 100 for each in found.rejects} == bad
    assert set((found.columns["row"] - 100).tolist()) == set(range(50)) - bad


def test_a_program_that_fails_for_every_row_is_given_up():
    calls = []

    def predict(batch):
        calls.append(len(batch["x"]))
        raise JobFailedError("bad")

    with pytest.raises(JobFailedError, match="the first 256 rows are rejected: bad"):
        PaddedBatches(predict, 1024).predict_rows(rows_of(100_000))
    assert len(calls) < 600
    found = PaddedBatches(predict, 1024, may_all_fail=True).predict_rows(rows_of(300))
    assert len(found.rejects) == 300


def test_what_predict_returns_must_be_the_same_columns():
    def predict(batch):
        return {"y" if batch["x"][0] < 16 else "z": batch["x"]}

    with pytest.raises(JobFailedError, match="returns z from row 116 on, and y before"):
        PaddedBatches(predict, 16).predict_rows(rows_of(20))


def test_text_of_objects_becomes_text():
    def predict(batch):
        return {"y": np.array([str(x) for x in batch["x"]], object)}

    found = PaddedBatches(predict, 16).predict_rows(rows_of(3))
    assert found.columns["y"].tolist() == ["0", "1", "2"]
