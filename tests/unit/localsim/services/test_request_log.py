"""The log of storage requests: numbers, pages, and what is left of it after a kill."""

from contextlib import closing
from pathlib import Path

from localsim.services.storage.wire.request_log import RequestLog

INSERT = "storage.objects.insert"


def test_a_request_has_no_answer_until_it_ends():
    times_s = iter((10.0, 12.5))
    log = RequestLog(now=times_s.__next__)
    row = log.begin(INSERT, "b", "a/1")
    (under_way,) = log.rows(after=0, limit=10)
    assert (under_way["number"], under_way["ended_s"], under_way["status"]) == (1, None, 0)
    log.end(row, 200)
    (ended,) = log.rows(after=0, limit=10)
    assert (ended["began_s"], ended["ended_s"], ended["status"]) == (10.0, 12.5, 200)


def test_a_broken_connection_has_no_end():
    log = RequestLog(now=lambda: 1.0)
    log.end(log.begin(INSERT, "b", "a"), 0)
    assert [(row["ended_s"], row["status"]) for row in log.rows(0, 1)] == [(None, 0)]


def test_pages_follow_the_numbers():
    log = RequestLog(now=lambda: 1.0)
    for _ in range(5):
        log.begin(INSERT, "b", "a")
    assert [row["number"] for row in log.rows(after=2, limit=2)] == [3, 4]
    assert log.rows(after=5, limit=2) == []


def test_a_killed_log_goes_on_where_it_was(tmp_path: Path):
    path = tmp_path / "requests.jsonl"
    with closing(RequestLog(now=lambda: 1.0, path=path)) as first:
        first.end(first.begin(INSERT, "b", "a"), 200)
        first.begin(INSERT, "b", "under way")
    with path.open("a") as file:
        file.write('[3, "storage.obj')  # the kill came here
    with closing(RequestLog(now=lambda: 2.0, path=path)) as second:
        assert second.begin(INSERT, "b", "new").number == 3
    with closing(RequestLog(now=lambda: 3.0, path=path)) as third:
        rows = [(row["object"], row["status"]) for row in third.rows(0, 10)]
    assert rows == [("a", 200), ("under way", 0), ("new", 0)]


def test_a_cleared_log_begins_with_number_1(tmp_path: Path):
    with closing(RequestLog(now=lambda: 1.0, path=tmp_path / "requests.jsonl")) as log:
        log.begin(INSERT, "b", "a")
        log.clear()
        assert log.rows(0, 10) == []
        assert log.begin(INSERT, "b", "a").number == 1
