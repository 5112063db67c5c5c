"""Files over standard input and output of a worker's python3, as they are shipped."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from tpuctl.operations.remote.shipping import build_archive


@pytest.fixture
def carrier(tmp_path):
    """`carrier(verb, stdin, **orders)` -> the process that is over."""

    def run(verb, stdin=b"", **orders):
        path = tmp_path / "orders.pyz"
        path.write_bytes(build_archive({"verb": verb, **orders}))
        return subprocess.run(
            [sys.executable, "-S", "-E", "-W", "error", path],
            env={**os.environ, "HOME": str(tmp_path)},
            input=stdin,
            capture_output=True,
            timeout=60,
        )

    return run


@pytest.fixture
def receive(carrier):
    """`receive({path: bytes}, stdin)` -> exit status and events."""

    def run(files, stdin=None, **changed):
        rows = [(path, len(body), sha256(body), 0o640) for path, body in files.items()]
        stream = b"".join(files.values()) if stdin is None else stdin
        done = carrier("receive", stream, target="in", files=rows, **changed)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    return run


def sha256(body):
    return hashlib.sha256(body).hexdigest()


def test_files_arrive_with_their_modes(receive, tmp_path):
    code, events = receive({"a": b"alpha", "deep/b": b"", "c": b"gamma"})
    assert (code, events) == (
        0,
        [{"need": [[0, 0], [1, 0], [2, 0]]}, {"taken": "a"}, {"taken": "deep/b"}, {"taken": "c"}],
    )
    assert (tmp_path / "in/c").read_bytes() == b"gamma"
    assert (tmp_path / "in/a").stat().st_mode & 0o777 == 0o640 & ~current_umask()


def test_what_is_there_is_not_asked_for(receive):
    receive({"a": b"alpha", "b": b"beta"})
    code, events = receive({"a": b"alpha", "b": b"BETA"}, stdin=b"BETA")
    assert (code, events) == (0, [{"need": [[1, 0]]}, {"taken": "b"}])


def test_a_stream_that_ends_early_leaves_what_came_for_the_next(receive, tmp_path):
    code, events = receive({"a": b"0123456789"}, stdin=b"0123")
    assert (code, events) == (1, [{"need": [[0, 0]]}])
    assert not (tmp_path / "in/a").exists()
    code, events = receive({"a": b"0123456789"}, stdin=b"456789")
    assert (code, events) == (0, [{"need": [[0, 4]]}, {"taken": "a"}])
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["a"]


def test_bytes_that_are_not_what_was_said_never_get_the_name(receive, tmp_path):
    code, events = receive({"a": b"alpha", "b": b"beta"}, stdin=b"ALPHAbeta")
    assert code == 1
    assert events[1:] == [{"failed": "a", "why": "it changed while it was sent"}, {"taken": "b"}]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["b"]


def test_names_that_lead_out_or_pass_a_link_are_refused_and_the_rest_comes(receive, tmp_path):
    outside, target = tmp_path / "outside", tmp_path / "in"
    outside.mkdir()
    target.mkdir()
    (target / "link").symlink_to(outside)
    code, events = receive({"../out": b"x", "link/a": b"y", "ok": b"z"}, stdin=b"z")
    assert code == 1
    assert {event["failed"] for event in events if "failed" in event} == {"../out", "link/a"}
    assert {"taken": "ok"} in events
    assert list(outside.iterdir()) == []


def test_files_are_sent_from_an_offset_to_their_size(carrier, tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "b").write_bytes(b"xyz")
    done = carrier("send", root=".", files=[("a", 4, 10), ("b", 0, 3)])
    assert (done.returncode, done.stdout) == (0, b"456789xyz")


def test_a_file_that_became_shorter_is_an_error(carrier, tmp_path):
    (tmp_path / "a").write_bytes(b"0123")
    done = carrier("send", root="a", files=[("", 0, 10)])
    assert (done.returncode, done.stdout) == (1, b"0123")
    assert b"became shorter while it was sent" in done.stderr


@pytest.mark.parametrize(
    ("checksum", "value"), [("crc32c", "mnG7TA=="), ("sha256", sha256(b"hello"))]
)
def test_a_list_has_sizes_checksums_and_modes(carrier, tmp_path, checksum, value):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_bytes(b"hello")
    (tree / "a").chmod(0o600)
    (tree / "link").symlink_to("a")
    (tree / ".tpuctl-part-x").write_bytes(b"unfinished")
    done = carrier("list", root="tree", checksum=checksum)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [{"file": ["a", 5, value, 0o600]}, {"listed": True}]


def test_an_absent_path_is_said(carrier):
    done = carrier("list", root="nothing", checksum="sha256")
    assert (done.returncode, json.loads(done.stdout)) == (1, {"absent": True})


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
