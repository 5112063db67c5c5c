"""What a program appends to its saving file is added up, whatever else is in there."""

import time
from pathlib import Path

import pytest

from tpuctl.agent.job.logs.save_waits import MOST_ROWS, SaveWaits


@pytest.fixture
def waits(tmp_path):
    return SaveWaits(str(tmp_path))


def append(waits: SaveWaits, data: bytes) -> None:
    with Path(waits.path).open("ab") as file:
        file.write(data)


def test_whole_lines_that_are_seconds_are_added_up(waits):
    began = time.monotonic() - 100
    assert not waits.read_new(began)
    append(waits, b"0.5\n1.25")
    assert waits.read_new(began)
    append(waits, b"0\nsoon\n-3\n1e9\nnan\n 2 \n\xff\n")
    assert waits.read_new(began)
    assert not waits.read_new(began)
    rows = waits.table()
    assert [row["waited_s"] for row in rows] == [0.5, 1.75, 3.75]
    assert all(90 < row["after_s"] < 110 for row in rows)


def test_of_many_waits_rows_are_spread_over_all_of_them_and_the_sum_is_exact(waits):
    for number in range(1, 10_001):
        waits.note(0.5, float(number))
    rows = waits.table()
    assert len(rows) <= MOST_ROWS + 1
    assert rows[-1] == {"after_s": 10_000.0, "waited_s": 5000.0}
    assert all(row["waited_s"] == row["after_s"] / 2 for row in rows)
    gaps = [
        after["after_s"] - before["after_s"] for before, after in zip(rows, rows[1:], strict=False)
    ]
    assert max(gaps) <= 10_000 / (MOST_ROWS / 4)


def test_a_file_that_is_none_is_left_alone(tmp_path, waits):
    (tmp_path / "saving").mkdir()
    assert not waits.read_new(0.0)
    assert waits.table() == []
