"""Files of known content over standard input and output of a worker's python3, as shipped."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from tpuctl.agent import ship
from tpuctl.agent.copy import packing
from tpuctl.agent.copy.unpacking import FrameBuffer, Unpacker


@pytest.fixture
def shipped(tmp_path):
    """`shipped(verb, stdin, **orders)` -> the process that is over."""

    def run(verb, stdin=b"", **orders):
        path = tmp_path / "orders.pyz"
        path.write_bytes(ship.archive({"verb": verb, **orders}))
        return subprocess.run(
            [sys.executable, "-S", "-E", "-W", "error", path],
            env={**os.environ, "HOME": str(tmp_path)},
            input=stdin,
            capture_output=True,
            timeout=60,
        )

    return run


@pytest.fixture
def receive(shipped, tmp_path):
    """`receive({path: bytes})` -> exit status and events; `cut` ends the stream early."""

    def run(files, *, offsets=(), sent=None, cut=None):
        rows = [(path, len(body), sha256(body), 0o640) for path, body in files.items()]
        stream = stream_of({**files, **(sent or {})}, dict(offsets), tmp_path)[:cut]
        orders = {"target": "in", "into": True, "names": [], "files": rows}
        done = shipped("receive", stream, **orders)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    return run


def stream_of(files, offsets, tmp_path):
    """The frames of these files, each with the SHA-256 of its bytes."""
    entries = []
    for number, (path, body) in enumerate(files.items()):
        source = tmp_path / f"source{number}"
        source.write_bytes(body)
        size_bytes, offset = len(body), offsets.get(path, 0)
        entries.append(
            packing.PackEntry(
                packing.FILE, str(source), path, size_bytes=size_bytes, sha256=sha256(body),
                offset=offset,
            )
        )  # fmt: skip
    return b"".join(piece.data for piece in packing.frames(entries))


def sha256(body):
    return hashlib.sha256(body).hexdigest()


def test_files_arrive_with_their_modes(receive, tmp_path):
    code, events = receive({"a": b"alpha", "deep/b": b"", "c": b"gamma"})
    assert (code, events) == (
        0,
        [{"need": [[0, 0], [1, 0], [2, 0]]}, {"copied": 3, "size_bytes": 10, "failures": 0}],
    )
    assert (tmp_path / "in/c").read_bytes() == b"gamma"
    assert (tmp_path / "in/a").stat().st_mode & 0o777 == 0o640 & ~current_umask()


def test_what_is_there_is_not_asked_for(receive, tmp_path):
    receive({"a": b"alpha", "b": b"beta"})
    code, events = receive({"a": b"alpha", "b": b"BETA"}, cut=0)
    assert (code, events) == (1, [{"need": [[1, 0]]}])


def test_a_stream_that_ends_early_leaves_what_came_for_the_next(receive, tmp_path):
    body = bytes(range(256)) * 2048
    code, events = receive({"a": body}, cut=packing.BLOCK_BYTES + 500)
    assert (code, events) == (1, [{"need": [[0, 0]]}])
    assert not (tmp_path / "in/a").exists()
    code, events = receive({"a": body}, offsets={"a": packing.BLOCK_BYTES})
    assert events[0] == {"need": [[0, packing.BLOCK_BYTES]]}
    assert (code, events[1]["copied"], events[1]["size_bytes"]) == (0, 1, len(body))
    assert (tmp_path / "in/a").read_bytes() == body
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["a"]


def test_bytes_that_are_not_what_was_said_never_get_the_name(receive, tmp_path):
    code, events = receive({"a": b"alpha", "b": b"beta"}, sent={"a": b"ALPHA"})
    assert code == 1
    assert events[1:] == [
        {"failed": "a", "why": "it changed while it was sent", "errno": 0},
        {"copied": 1, "size_bytes": 4, "failures": 1},
    ]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["b"]


def test_names_that_lead_out_or_pass_a_link_are_refused(receive, tmp_path):
    outside, target = tmp_path / "outside", tmp_path / "in"
    outside.mkdir()
    target.mkdir()
    (target / "link").symlink_to(outside)
    code, events = receive({"../out": b"x", "link/a": b"y", "ok": b"z"}, cut=0)
    assert code == 1
    assert {event["failed"] for event in events if "failed" in event} == {"../out", "link/a"}
    assert {"need": [[2, 0]]} in events
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("kind", [packing.FILE, packing.LINK, packing.DIRECTORY])
def test_a_sender_adds_nothing_to_what_was_asked_for(tmp_path, kind):
    rows = [("a", 1, sha256(b"x"), 0o644)]
    orders = {"target": str(tmp_path / "in"), "into": True, "names": [], "files": rows}
    unpacker = Unpacker(orders, lambda **_event: None)
    unpacker.missing()
    path = "b" if kind == packing.FILE else "a"
    with pytest.raises(ValueError, match="not asked for"):
        unpacker.feed(packing.frame(kind, path=path, mode=0o644, mtime_ns=0, target="/", offset=0))
    unpacker.close()


def test_files_are_sent_from_an_offset_to_their_size(shipped, tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "b").write_bytes(b"xyz and more")
    rows = [a_row("a", 10, offset=4), a_row("b", 3)]
    done = shipped("send", root=".", files=rows)
    assert (done.returncode, sent_bytes(done.stdout)) == (0, b"456789xyz")


def test_a_file_that_became_shorter_is_sent_as_far_as_it_goes(shipped, tmp_path):
    (tmp_path / "a").write_bytes(b"0123")
    done = shipped("send", root="a", files=[["", a_row("a", 10)[1]]])
    assert (done.returncode, sent_bytes(done.stdout)) == (0, b"0123")


def a_row(name, size_bytes, offset=0):
    return [name, {"path": name, "size_bytes": size_bytes, "sha256": "it", "offset": offset}]


def sent_bytes(stream):
    frames = FrameBuffer().frames(stream)
    return b"".join(payload for kind, payload in frames if kind == packing.BYTES)


@pytest.mark.parametrize(
    ("checksum", "value"), [("crc32c", "mnG7TA=="), ("sha256", sha256(b"hello"))]
)
def test_a_list_has_sizes_checksums_and_modes(shipped, tmp_path, checksum, value):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_bytes(b"hello")
    (tree / "a").chmod(0o600)
    (tree / "link").symlink_to("a")
    (tree / ".tpuctl-part-x").write_bytes(b"unfinished")
    done = shipped("list", root="tree", checksum=checksum)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [{"file": ["a", 5, value, 0o600]}, {"listed": True}]


def test_an_absent_path_is_said(shipped):
    done = shipped("list", root="nothing", checksum="sha256")
    assert (done.returncode, json.loads(done.stdout)) == (1, {"absent": True})


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
