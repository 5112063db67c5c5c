"""The two ends of a copy: what one packs the other writes, and nothing that was not asked for."""

import errno
import json
import os
import subprocess
import sys
from hashlib import sha256

import pytest

from tpuctl.agent import ship
from tpuctl.agent.copy import packing
from tpuctl.agent.copy.unpacking import Unpacker
from tpuctl.agent.data import target_tree


@pytest.fixture
def unpack(tmp_path):
    """`unpack(stream, **orders)` writes it to `target` below tmp_path; what was said."""
    opened = []

    def write(stream, **orders):
        said = []
        given = {"target": str(tmp_path / "target"), "into": True, "names": [], **orders}
        opened.append(Unpacker(given, lambda **event: said.append(event)))
        for start in range(0, len(stream), 7):
            opened[-1].feed(stream[start : start + 7])
        return said

    yield write
    for each in opened:
        each.close()


def a_file(path, data=b"x", **ending):
    fields = {"path": path, "mode": 0o644, "mtime_ns": 0}
    end = packing.frame(packing.END_OF_FILE, **{"sha256": sha256(data).hexdigest(), **ending})
    return packing.frame(packing.FILE, **fields) + packing.frame(packing.BYTES, data) + end


def test_a_stream_in_small_pieces_is_written_whole(unpack, tmp_path):
    assert unpack(a_file("a", b"alpha") + packing.frame(packing.END)) == [
        {"copied": 1, "size_bytes": 5, "failures": 0}
    ]
    assert (tmp_path / "target" / "a").read_bytes() == b"alpha"


def test_bytes_that_are_not_those_that_were_sent_get_no_name(unpack, tmp_path):
    (said,) = unpack(a_file("a", sha256="of other bytes"))
    assert said == {"failed": "a", "why": "it changed while it was sent", "errno": 0}
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize("path", ["../a", "a/../../b", "/etc/x", "", ".", "a//b", "a/\0"])
def test_no_name_leads_out_of_the_target(unpack, tmp_path, path):
    with pytest.raises(ValueError, match="out of the target"):
        unpack(a_file(path))
    assert [each.name for each in tmp_path.iterdir()] == ["target"]


def test_a_name_that_was_not_asked_for_is_refused(unpack):
    unpack(a_file("log1.txt"), names=["log*.txt"])
    with pytest.raises(ValueError, match="not asked for"):
        unpack(a_file(".bashrc"), names=["log*.txt"])


def test_a_link_that_comes_first_leads_nothing_out(unpack, tmp_path):
    link = packing.frame(packing.LINK, path="d", target="..", mtime_ns=0)
    (said,) = unpack(link + a_file("d/escaped"))
    assert said["failed"] == "d/escaped"
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize(
    "stream",
    [b"?\0\0\0\0", b"B\xff\xff\xff\xff", packing.frame(packing.FILE, b"{")],
    ids=["unknown", "too long", "no JSON"],
)
def test_a_stream_that_makes_no_sense_is_an_error(unpack, stream):
    with pytest.raises(ValueError, match="frame|Expecting"):
        unpack(stream)


def test_a_full_disk_ends_it_and_leaves_nothing(unpack, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(target_tree, "write_all", full)
    with pytest.raises(OSError, match="No space"):
        unpack(a_file("a"))
    assert list((tmp_path / "target").iterdir()) == []


def test_a_file_that_cannot_be_read_to_its_end_is_not_there(unpack, tmp_path):
    begun = packing.frame(packing.FILE, path="a", mode=0o644, mtime_ns=0)
    failed = packing.frame(packing.FAILED, path="a", why="cannot read: input/output error", errno=5)
    (said,) = unpack(begun + packing.frame(packing.BYTES, b"x") + failed)
    assert said == {"failed": "a", "why": "cannot read: input/output error", "errno": 5}
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.system
def test_both_ends_run_as_they_are_shipped_with_no_library_at_all(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "new\nline").write_text("x")
    environ = {**os.environ, "HOME": str(tmp_path), "LC_ALL": "C"}

    def run(modules, orders, stdin=b""):
        python, *argv = [*ship.command(modules), json.dumps(orders)]
        assert python == "python3"
        options = ["-S", "-E", "-W", "error"]
        return subprocess.run(
            [sys.executable, *options, *argv],
            input=stdin,
            env=environ,
            capture_output=True,
            timeout=60,
        )

    sent = run(ship.SENDER, {"sources": ["~/source"], "recursive": True})
    assert (sent.returncode, sent.stderr) == (0, b"")
    orders = {"target": "copy", "into": False, "names": []}
    taken = run(ship.RECEIVER, orders, sent.stdout)
    assert (taken.returncode, taken.stderr) == (0, b"")
    assert (tmp_path / "copy" / "new\nline").read_text() == "x"
    cut = run(ship.RECEIVER, {**orders, "target": "cut"}, sent.stdout[:-9])
    assert (cut.returncode, cut.stderr) == (1, b"the other end is gone\n")
