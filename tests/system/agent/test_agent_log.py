"""The log on its way from the program to the disk, the bucket and whoever watches."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tpuctl.agent.job import status_stream
from tpuctl.agent.job.logs import log_files, uploader
from tpuctl.agent.job.logs.job_log import JobLog
from tpuctl.agent.job.logs.log_files import LogFiles
from tpuctl.agent.job.logs.redaction import Redaction
from tpuctl.agent.job.objects import ObjectClient
from tpuctl.agent.job.state.news_pipe import NewsPipe

LINE = b"1.000 " + b"x" * 93 + b"\n"
MAY_MOUNT = (
    shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A log of files of 1000 bytes, of which 2000 are kept, and 10,000 when the bucket is away."""
    monkeypatch.setattr(log_files, "FILE_BYTES", 1000)
    monkeypatch.setattr(log_files, "RETAINED_BYTES", 2000)
    monkeypatch.setattr(log_files, "MAX_BYTES", 10_000)
    return LogFiles(str(tmp_path / "log"))


@pytest.fixture
def sending(files, worker, monkeypatch):
    """What puts that log into the worker's bucket."""
    monkeypatch.setenv("GCE_METADATA_HOST", worker.server.address)
    return uploader.Uploader(lambda: ObjectClient(worker.server.endpoint, "b"), "logs", files)


def write(files, lines: int) -> None:
    for number in range(lines):
        files.append(b"%09d " % number + LINE[10:])


def on_disk(files) -> list[str]:
    return sorted(path.name for path in Path(files.directory).iterdir())


def bucket_log(server) -> bytes:
    entries = sorted(server.store.list("logs/"), key=lambda each: each.key)
    return b"".join(server.store.get_range(each.key) for each in entries)


def test_what_is_in_the_bucket_goes_when_newer_lines_come(files, sending):
    write(files, 55)
    assert len(on_disk(files)) == 6
    assert sending.segment() is True
    assert on_disk(files) == ["000000004000", "000000005000"]
    write(files, 10)
    assert on_disk(files) == ["000000004000", "000000005000", "000000006000"]


def test_the_bucket_and_the_disk_have_every_byte_between_them(files, sending, worker):
    for _ in range(9):
        write(files, 7)
        sending.segment()
    written = b"".join(b"%09d " % number + LINE[10:] for _ in range(9) for number in range(7))
    assert bucket_log(worker.server) == written
    assert files.safe_bytes == files.size_bytes == len(written)


def test_the_oldest_give_way_to_a_line_when_the_bucket_stays_away(files, sending, worker):
    worker.server.is_away = True
    write(files, 200)
    assert sending.segment() is False
    write(files, 100)
    assert files.disk_bytes < 11_100
    worker.server.is_away = False
    while files.safe_bytes < files.size_bytes:
        assert sending.segment() is True
    lines = bucket_log(worker.server).splitlines()
    assert lines[-1].split()[0] == b"000000099"
    gaps = [line.split()[2] for line in lines if b"bytes of the log were dropped here" in line]
    whole = sum(len(line) + 1 for line in lines if b"dropped" not in line)
    assert whole + sum(map(int, gaps)) == files.size_bytes == 30_000


def test_a_large_segment_ends_with_a_whole_line(files):
    write(files, 55)
    span = files.next_span(2550)
    assert (span.start, span.size_bytes, span.end) == (0, 2000, 2000)


def test_what_is_being_uploaded_is_not_dropped(files):
    write(files, 35)
    span = files.next_span(10**9)
    write(files, 200)
    assert b"".join(files.blocks(span)) == b"".join(
        b"%09d " % number + LINE[10:] for number in range(35)
    )
    files.release_span()
    assert files.next_span(10**9).start == 0


def test_a_lost_answer_loses_no_line(files, sending, worker):
    write(files, 3)
    worker.server.store.put_if_absent("logs/000000000000", b"what a supervisor saved")
    assert sending.segment() is True
    assert files.safe_bytes == len(b"what a supervisor saved")
    assert sending.segment() is True
    first, rest = sorted(worker.server.store.list("logs/"), key=lambda each: each.key)
    assert (first.size_bytes + rest.size_bytes, files.safe_bytes) == (300, 300)


class Waits:
    """An event that is set after some waits, each of which lets more lines come."""

    def __init__(self, files, waits: int) -> None:
        self.files = files
        self.waits = waits
        self.waited_s: list[float] = []

    def wait(self, timeout_s: float) -> bool:
        self.waited_s.append(timeout_s)
        write(self.files, 30)
        return len(self.waited_s) > self.waits


def test_one_segment_is_uploaded_each_fifteen_seconds(files, sending, worker, monkeypatch):
    # A fork of this process, with all the threads it has, is not one of the agent.
    monkeypatch.setattr(uploader, "call_in_fork", lambda work: work())
    sending.ending = Waits(files, 3)
    sending.run()
    assert sending.ending.waited_s == [15.0] * 4
    assert worker.server.uploads == [f"logs/{start:012d}" for start in (0, 3000, 6000, 9000)]


def test_a_bucket_that_stays_away_keeps_nobody_and_has_everything_when_it_is_back(worker):
    code = worker.directory / "tpuctl" / "agent" / "job" / "logs" / "uploader.py"
    code.write_text(code.read_text().replace("PATIENCE_S = 20.0", "PATIENCE_S = 0.1"))
    worker.server.is_away = True
    quick = worker.directory / "tpuctl" / "agent" / "job" / "agent_run.py"
    quick.write_text(quick.read_text().replace("PAUSE_S = 1.0", "PAUSE_S = 0.05"))
    status = worker.finish("echo hello")
    assert (status["exit_status"], status["uploaded_bytes"]) == (0, 0)
    messages = [json.loads(line) for line in worker.agent("watch").stdout.splitlines()]
    assert messages[1]["log"].endswith(" hello\n")
    worker.server.is_away = False
    worker.until(uploaded_bytes=status["log_bytes"])
    assert (worker.final()["exit_status"], worker.final()["closed"]) == (0, True)
    assert worker.server.uploads == ["logs/a1/w0/000000000000", "status/a1/w0"]


def test_a_watcher_starts_where_the_disk_does(files, sending, tmp_path):
    write(files, 55)
    sending.segment()
    watch = status_stream.StatusStream(str(tmp_path), 0)
    assert watch.next_block(0)[:10] == b"000000040 "
    assert watch.offset == 4000


def test_a_watcher_of_its_own_agent_wakes_for_news_and_for_the_agent_s_end(tmp_path):
    forever = time.monotonic() + 1e6
    news = NewsPipe()
    watch = status_stream.StatusStream(str(tmp_path), 0, news)
    news.tell()
    assert watch.wait(forever)
    news.keep_reader()  # the other end was the agent's
    assert not watch.wait(forever)
    assert watch.news is None  # from now on it looks all the time, as any other watcher does
    os.close(news.read_end)


def test_a_watcher_reads_from_file_to_file(files, tmp_path, capsys):
    write(files, 25)
    status_stream.StatusStream(str(tmp_path), 950).send_log()
    messages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["offset"], len(each["log"])) for each in messages] == [
        (950, 50), (1000, 1000), (2000, 500),
    ]  # fmt: skip


def test_a_disk_that_is_full_for_a_while_loses_whole_lines_and_says_so(files, monkeypatch):
    log = JobLog(files, Redaction())
    log.feed(b"first\n")
    monkeypatch.setattr(log_files.os, "write", full)
    log.feed(b"lost\n")
    assert log.tail + log.complaint == (
        b"first\nlost\ntpuctl: cannot write the log: No space left on device\n"
    )
    monkeypatch.undo()
    log.feed(b"last\n")
    texts = [line.split(" ", 1)[1] for line in read(files).splitlines()]
    assert texts == ["first", "tpuctl: cannot write the log: No space left on device", "last"]


def full(descriptor: int, _data: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def read(files) -> str:
    return "".join(Path(files.directory, name).read_text() for name in on_disk(files))


def test_on_a_full_disk_what_is_in_the_bucket_goes_first(files, sending, monkeypatch):
    write(files, 15)
    sending.segment()
    real, refusals = os.write, [1]

    def tight(descriptor, data):
        return full(descriptor, data) if refusals and refusals.pop() else real(descriptor, data)

    monkeypatch.setattr(log_files.os, "write", tight)
    files.append(LINE)
    assert on_disk(files) == ["000000001000"]
    assert files.size_bytes == 1600


def test_a_secret_in_pieces_is_still_one(tmp_path):
    files = LogFiles(str(tmp_path / "log"))
    redaction = Redaction()
    redaction.add(["hunter22"])
    log = JobLog(files, redaction)
    for block in (b"a hun", b"ter22 b\nhunter", b"22"):
        log.feed(block)
    log.feed(b"y" * (64 * 1024 - 4) + b"hunt")
    log.feed(b"er22")
    log.end_line()
    assert "hunter22" not in read(files).replace("\n", "")
    assert read(files).count("***") == 3


@pytest.mark.parametrize(
    ("value", "line", "shown"),
    [
        ("abc", "abc", "abc"),
        ("abcd", "xabcdx", "x***x"),
        ("one line\ntwo\nthree lines\n", "two three lines, one line", "two ***, ***"),
    ],
)
def test_what_is_replaced(value, line, shown):
    redaction = Redaction()
    redaction.add([value])
    assert redaction.redact(line.encode()).decode() == shown


@pytest.mark.skipif(not MAY_MOUNT, reason="this machine lets nobody mount a small disk")
def test_a_full_disk_ends_the_run_with_a_status_that_says_so(worker, tmp_path):
    worker.configure(
        "head -c 100M /dev/zero >zeros; echo on; yes a long line of a program | head -200000;"
        ' python3 -c \'open("model", "w").write("y" * 10_000_000)\''
    )
    script = """\
        mount -t tmpfs -o size=8m none "$1" && cp -r "$2" "$1" && cd / && agent="$1/$4/agent.py" &&
        "$3" -S "$agent" start "$1/$4" && exec "$3" -S "$agent" run "$1/$4" --watch"""
    disk = tmp_path / "disk"
    disk.mkdir()
    argv = ["sh", "-c", script, "sh", disk, worker.directory, sys.executable, worker.directory.name]
    done = subprocess.run(
        ["unshare", "-rm", *argv], env=worker.environ, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert messages[-1] == {"gone": False}
    said = messages[-2]["status"]
    assert (said["phase"], said["exit_status"], said["closed"]) == ("ended", 1, True)
    final = worker.final()
    assert "OSError: [Errno 28] No space left on device" in final["last_lines"]
    assert final["traceback"].endswith("No space left on device")


def test_a_file_that_is_shorter_than_it_was_ends_no_upload_in_a_loop(files):
    write(files, 5)
    os.truncate(files.path(0), 10)
    with pytest.raises(OSError, match="shorter"):
        list(files.blocks(files.next_span(1000)))


def test_what_the_agent_says_is_no_sign_of_life_of_the_program(files):
    log = JobLog(files, Redaction())
    log.say("maintenance")
    assert (log.active_s, log.tail) == (None, b"tpuctl: maintenance\n")
    log.append(b"step\n")
    assert log.active_s is not None


def test_a_secret_of_any_bytes_is_replaced():
    redaction = Redaction()
    redaction.add(["caf\udce9-key", "half\ud800-key"])
    assert redaction.redact(b"a caf\xe9-key") == b"a ***"
