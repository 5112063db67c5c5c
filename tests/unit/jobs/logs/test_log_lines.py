"""One worker's log out of pieces, and every worker's out of the bucket."""

import re

import pytest

from tpuctl.jobs.logs import segments
from tpuctl.jobs.logs.log_lines import LineAssembler
from tpuctl.models.job_log import ALL_LINES, LogFilter, LogLine
from tpuctl.store import open_store

LOGS = "tpuctl/jobs/j/logs"


@pytest.fixture
def bucket(tmp_path):
    return open_store(str(tmp_path / "bucket"))


def texts(lines) -> list[str]:
    return [line.text for line in lines]


def test_a_line_is_whole_when_its_end_has_come():
    log = LineAssembler(1, 0)
    assert texts(log.take(0, b"1.000 a\n2.0")) == ["a"]
    assert texts(log.take(11, b"00 b\n")) == ["b"]
    assert log.end == 16


def test_what_came_before_is_not_told_again():
    log = LineAssembler(1, 0)
    assert texts(log.take(0, b"1.000 a\n2.000 b\n")) == ["a", "b"]
    assert texts(log.take(8, b"2.000 b\n")) == []
    assert texts(log.take(8, b"2.000 b\n3.000 c\n")) == ["c"]


def test_a_hole_is_marked_and_the_cut_line_after_it_left_out():
    log = LineAssembler(1, 3)
    list(log.take(0, b"1.000 a\n2.000 cut"))
    hole, after = log.take(100, b"off\n5.000 z\n")
    assert hole == LogLine(
        1, 3, 1.0, "... 92 bytes of the log are missing here ...", missing_bytes=92
    )
    assert after == LogLine(1, 3, 5.0, "z")


def test_bytes_that_are_no_utf8_and_odd_line_ends_stay_in_their_line():
    log = LineAssembler(1, 0)
    assert texts(log.take(0, b"1.000 a\xff\r\xe2\x80\xa8b\n1.000 \n")) == ["a\ufffd\r\u2028b", ""]


def test_segments_are_joined_by_offset_and_merged_by_time(bucket):
    bucket.put_if_absent(f"{LOGS}/a1/w0/000000000000", b"1.0 a\n3.0 ")
    bucket.put_if_absent(f"{LOGS}/a1/w0/000000000006", b"3.0 c\n4.0 cut")
    bucket.put_if_absent(f"{LOGS}/a1/w1/000000000000", b"2.0 b\n")
    bucket.put_if_absent(f"{LOGS}/a2/w0/000000000000", b"0.5 d\n")
    logs: dict = {}
    assert list(segments.lines(bucket, "j", ALL_LINES, logs=logs)) == [
        LogLine(1, 0, 1.0, "a"),
        LogLine(1, 1, 2.0, "b"),
        LogLine(1, 0, 3.0, "c"),
        LogLine(2, 0, 0.5, "d"),
    ]
    assert list(segments.lines(bucket, "j", ALL_LINES, logs=logs)) == []
    bucket.put_if_absent(f"{LOGS}/a1/w0/000000000019", b" off\n")
    assert texts(segments.lines(bucket, "j", ALL_LINES, logs=logs)) == ["cut off"]


def test_a_segment_is_read_in_ranges(bucket, monkeypatch):
    monkeypatch.setattr(segments, "RANGE_BYTES", 5)
    bucket.put_if_absent(f"{LOGS}/a1/w0/000000000000", b"1.0 abc\n2.0 defgh\n")
    assert texts(segments.lines(bucket, "j", ALL_LINES)) == ["abc", "defgh"]


def test_only_what_is_wanted_is_read(bucket):
    for source in ("a1/w0", "a1/w1", "a2/w1"):
        bucket.put_if_absent(f"{LOGS}/{source}/000000000000", f"1.0 {source}\n".encode())
    wanted = LogFilter(workers=frozenset({1}), attempts=frozenset({1}))
    assert texts(segments.lines(bucket, "j", wanted)) == ["a1/w1"]
    assert texts(segments.lines(bucket, "j", ALL_LINES, attempt=2)) == ["a2/w1"]


def test_segments_that_are_too_old_are_passed_over_without_a_hole(bucket):
    bucket.put_if_absent(f"{LOGS}/a1/w0/000000000000", b"1.0 a\n")
    updated_s = next(iter(bucket.list(LOGS))).updated_s
    assert texts(segments.lines(bucket, "j", LogFilter(since_s=updated_s))) == ["a"]
    assert texts(segments.lines(bucket, "j", LogFilter(since_s=updated_s + 61.0))) == []


def test_lines_are_wanted_by_time_and_by_what_is_in_them():
    lines = [
        LogLine(1, 0, 5.0, "loss=1"), LogLine(1, 0, 6.0, "up"), LogLine(1, 0, 7.0, "loss=0"),
        LogLine(1, 0, 8.0, "a hole", missing_bytes=1),
    ]  # fmt: skip
    wanted = LogFilter(since_s=6.0, grep=re.compile("^loss="))
    assert texts(filter(wanted.matches_line, lines)) == ["loss=0", "a hole"]


@pytest.mark.parametrize("stamp", ["1e400", "nan", "inf", "-1", "999999999999", "1_0"])
def test_a_line_whose_time_is_none_is_left_out(stamp):
    pieces = LineAssembler(1, 0).take(0, f"{stamp} foreign\n2.000 ours\n".encode())
    assert [line.text for line in pieces] == ["ours"]


@pytest.mark.parametrize("name", ["README", "a1/w0/notanumber", "a1/w0/x/000000000000", "ax/w0/1"])
def test_what_others_put_beside_the_segments_is_left_alone(bucket, name):
    bucket.put_if_absent(f"{LOGS}/{name}", b"1.000 foreign\n")
    bucket.put_if_absent(f"{LOGS}/a1/w0/000000000000", b"1.000 ours\n")
    assert texts(segments.lines(bucket, "j", ALL_LINES)) == ["ours"]
