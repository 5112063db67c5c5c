"""Facts of many observers, read as one set."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tpuctl.ledger.dated_lines import add_lines, day_of, days_between, read_lines
from tpuctl.store import open_store

DAY_S = 86_400.0
NOON_S = 1_767_268_800.0  # 2026-01-01T12:00:00Z


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "bucket"))


def test_what_two_observers_saw_is_read_once(store):
    seen = {"node": "7", "state": "READY"}
    assert add_lines(store, "slices", "anna", "2026-01-01", [seen]) == 1
    assert add_lines(store, "slices", "anna", "2026-01-01", [dict(reversed(seen.items()))]) == 0
    assert add_lines(store, "slices", "ben", "2026-01-01", [seen, {"node": "8"}]) == 2
    assert read_lines(store, "slices", NOON_S, NOON_S) == [seen, {"node": "8"}]
    assert [entry.key for entry in store.list()] == [
        "tpuctl/ledger/slices/2026-01-01/anna.jsonl",
        "tpuctl/ledger/slices/2026-01-01/ben.jsonl",
    ]


def test_only_the_days_and_the_kind_that_are_asked_for_are_read(store):
    for number in range(4):
        day = day_of(NOON_S + number * DAY_S)
        add_lines(store, "slices", "anna", day, [{"day": number}])
        add_lines(store, "refusals", "anna", day, [{"refused": number}])
    found = read_lines(store, "slices", NOON_S + DAY_S, NOON_S + 2 * DAY_S)
    assert found == [{"day": 1}, {"day": 2}]
    assert list(days_between(NOON_S - DAY_S, NOON_S)) == ["2025-12-31", "2026-01-01"]


def test_lines_that_are_added_at_once_are_all_there(store):
    def add(number: int) -> int:
        return add_lines(store, "slices", "anna", "2026-01-01", [{"node": number}])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(add, range(8))) == [1] * 8
    assert sorted(line["node"] for line in read_lines(store, "slices", NOON_S, NOON_S)) == [
        *range(8)
    ]


def test_what_is_no_line_is_left_out(store):
    store.put_if_absent(
        "tpuctl/ledger/slices/2026-01-01/zoe.jsonl", b'{"a":1}\n[2]\n{"torn\n\xff\n'
    )
    assert read_lines(store, "slices", NOON_S, NOON_S) == [{"a": 1}]
    assert add_lines(store, "slices", "zoe", "2026-01-01", []) == 0
