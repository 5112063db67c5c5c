"""`tpuctl node cp`: files and directories to and from the workers of a slice, as they are."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from client.cli.node.four_workers import on_workers
from client.cli.requests.own_slice import homes, own_slice

MTIME_NS = 1_500_000_000_123_456_789
STRANGE = ["new\nline", "-rf", "a b'c\"$d", "\udcff\udce9 is no UTF-8"]


@pytest.fixture(scope="module")
def slice4(tmp_path_factory):
    """`tpuctl` with one slice of four workers that all tests of this file share."""
    yield from own_slice(tmp_path_factory.mktemp("home"), "process")


@pytest.fixture
def home(slice4):
    """`home(worker)` is that worker's empty HOME, as a directory of this machine."""
    return homes(slice4).__getitem__


@pytest.fixture
def tree(tmp_path):
    """A directory with everything that a directory can hold and a copy must keep."""
    root = tmp_path / "tree"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (root / "deep" / "run.sh").chmod(0o751)
    for name in STRANGE:
        (root / name).write_text("strange")
    (root / "link").symlink_to("deep/run.sh")
    (root / "dangling").symlink_to("/nowhere/at all")
    (root / "locked").mkdir()
    (root / "locked" / "inner").write_text("x")
    with (root / "sparse").open("wb") as file:
        file.seek(3 * 2**30)
        file.write(b"behind a hole")
        file.truncate(4 * 2**30)
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, ns=(MTIME_NS, MTIME_NS), follow_symlinks=False)
    (root / "locked").chmod(0o555)
    yield root
    (root / "locked").chmod(0o755)


def described(root):
    """What a copy must keep of all that is below a directory."""
    found = {}
    for path in root.rglob("*"):
        status = path.lstat()
        what = path.readlink() if path.is_symlink() else status.st_size * path.is_file()
        mode = None if path.is_symlink() else status.st_mode
        found[str(path.relative_to(root))] = (mode, status.st_mtime_ns, what)
    return found


def test_a_tree_arrives_on_every_worker_and_comes_back_as_it_was(slice4, tree, home, tmp_path):
    result = slice4("node", "cp", "-r", str(tree), "n1:", "-o", "json")
    assert result.code == 0, result.err
    assert result.json == [
        {
            "worker": number,
            "state": "DONE",
            "files_copied": 9,
            "bytes_copied": 4 * 2**30 + 10 + 7 * len(STRANGE) + 1,
            "files_failed": 0,
            "error": None,
        }
        for number in range(4)
    ]
    assert described(home(3) / "tree") == described(tree)
    assert (home(3) / "tree" / "sparse").stat().st_blocks * 512 < 2**20  # the holes are holes
    back = tmp_path / "back"
    assert slice4("node", "cp", "-r", "n1:tree", str(back), "--worker", "2").code == 0
    assert described(back) == described(tree)
    with (back / "sparse").open("rb") as file:
        file.seek(3 * 2**30)
        assert file.read(20) == b"behind a hole" + bytes(7)


def test_several_workers_are_fetched_from_into_a_directory_each(slice4, home, tmp_path):
    on_workers(slice4, "echo $TPU_WORKER_ID >log.txt; echo more >log2.txt; echo no >other")
    result = slice4("node", "cp", "n1:log*.txt", str(tmp_path / "logs"), "--worker", "1,3")
    assert result.code == 0, result.err
    found = {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*.txt")}
    assert found == {
        "logs/1/log.txt": "1\n",
        "logs/1/log2.txt": "more\n",
        "logs/3/log.txt": "3\n",
        "logs/3/log2.txt": "more\n",
    }


@pytest.mark.parametrize(
    ("sources", "target", "expected"),
    [
        (["a"], "n1:", ["a"]),
        (["a"], "n1:b", ["b"]),
        (["a"], "n1:new/", ["new/a"]),
        (["a"], "n1:new/b", ["new/b"]),
        (["a"], "n1:there", ["there/a"]),
        (["a"], "n1:~/there", ["there/a"]),
        (["a", "c"], "n1:new", ["new/a", "new/c"]),
        (["d"], "n1:new", ["new/x"]),
        (["d"], "n1:there", ["there/d/x"]),
        (["d/"], "n1:there/", ["there/d/x"]),
        (["d/."], "n1:there", ["there/x"]),
    ],
)  # fmt: skip
def test_where_a_copy_goes_is_as_cp_has_it(slice4, home, tmp_path, sources, target, expected):
    (tmp_path / "a").write_text("a")
    (tmp_path / "c").write_text("c")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_text("x")
    (home(0) / "there").mkdir()
    paths = [f"{tmp_path}/{name}" for name in sources]
    result = slice4("node", "cp", "-r", *paths, target, "--worker", "0")
    assert result.code == 0, result.err
    found = [str(path.relative_to(home(0))) for path in home(0).rglob("[!.]*") if path.is_file()]
    assert sorted(found) == expected


def test_a_file_is_replaced_at_once_and_a_link_to_it_stays(slice4, home, tmp_path):
    (home(0) / "real").write_text("old")
    (home(0) / "current").symlink_to("real")
    before = (home(0) / "real").stat().st_ino
    (tmp_path / "new").write_text("new")
    assert slice4("node", "cp", str(tmp_path / "new"), "n1:current", "--worker", "0").code == 0
    assert (home(0) / "current").is_symlink()
    assert (home(0) / "real").read_text() == "new"
    assert (home(0) / "real").stat().st_ino != before


def test_a_directory_that_is_there_keeps_its_mode(slice4, home, tmp_path):
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open" / "x").write_text("x")
    before = home(0).stat().st_mode
    assert slice4("node", "cp", "-r", f"{tmp_path}/open/.", "n1:", "--worker", "0").code == 0
    assert home(0).stat().st_mode == before


def test_the_table_says_which_worker_failed_and_why(slice4, home, tmp_path):
    (tmp_path / "a").write_text("a")
    (home(2) / "a").mkdir()
    result = slice4("node", "cp", str(tmp_path / "a"), "n1:")
    assert (result.code, result.rows[2]) == (70, ["2", "FAILED", "0", "0", "1"])
    assert result.err.splitlines() == [
        "warning: worker 2: a: not copied: a directory stands in the way",
        "error: 1 of 4 workers failed: 2",
        "hint: put right what is said here, then run the same command again",
    ]
    assert (home(3) / "a").read_text() == "a"


def test_a_cause_is_said_once_and_is_about_the_target(slice4, tmp_path):
    (tmp_path / "a").write_text("a")
    result = slice4("node", "cp", str(tmp_path / "a"), "n1:/proc/x", "--worker", "0,2-3")
    cause = "a: not copied: cannot write to /proc: no such file or directory"
    assert (result.code, result.err.splitlines()[0]) == (70, f"warning: workers 0,2-3: {cause}")
    assert result.err.count("no such file") == 1
    result = slice4("node", "cp", str(tmp_path / "a"), "n1:/proc/x", "--worker", "0")
    assert (result.code, result.err.splitlines()[0]) == (
        10,
        "error: worker 0: a: cannot write to /proc: no such file or directory",
    )


def test_a_lost_worker_is_named_once(slice4, tmp_path):
    (tmp_path / "a").write_text("a")
    assert slice4("local", "fault", "worker n1/1: refuses ssh").code == 0
    result = slice4("node", "cp", str(tmp_path / "a"), "n1:")
    alone = slice4("node", "cp", str(tmp_path / "a"), "n1:", "--worker", "1")
    assert slice4("local", "fault", "--clear").code == 0
    why = "worker 1: it ends the connection before the login"
    assert (result.code, result.err.splitlines()[0]) == (70, f"warning: {why}")
    assert (alone.code, alone.err.splitlines()[0]) == (40, f"error: {why}")


def test_no_link_on_a_worker_leads_a_copy_out_of_its_target(slice4, home, tmp_path):
    (tmp_path / "t" / "sub").mkdir(parents=True)
    (tmp_path / "t" / "sub" / "x").write_text("x")
    (home(0) / "elsewhere").mkdir()
    (home(0) / "t").mkdir()
    (home(0) / "t" / "sub").symlink_to("../elsewhere")
    result = slice4("node", "cp", "-r", str(tmp_path / "t"), "n1:", "--worker", "0")
    assert result.code == 60
    assert "t/sub: not copied: a file or a link stands in the way" in result.err
    assert list((home(0) / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (["nope", "n1:"], 10, "there is no file or directory nope"),
        (["n1:nope", "."], 10, "worker 0: nope: no such file or directory"),
        (["/", "n1:"], 2, "/ is a directory"),
        (["n1:.", "."], 2, "worker 0: .: it is a directory: copy it with -r"),
        (["a", "b"], 2, "both sides are on this machine"),
        (["n1:a", "n2:b"], 2, "both sides are on workers"),
        (["n1:a", "n2:b", "."], 2, "the sources are in different places"),
        (["a"], 2, "a copy needs a source and a target"),
        (["me@n1:a", "."], 2, "'me@n1:a' names a user, and tpuctl logs in as its own"),
        (["gs://b/a", "n1:"], 2, "'gs://b/a' is in a bucket"),
        (["n9:a", "."], 10, "there is no node 'n9' in us-west4-a"),
        (["n1:a", ".", "--worker", "9"], 2, "node 'n1' has no worker 9"),
        (["n1:a", ".", "--worker", ""], 2, "'' does not name workers"),
    ],
)
def test_what_cannot_be_copied_is_said(slice4, argv, code, error):
    result = slice4("node", "cp", *argv)
    assert result.code == code
    assert f"error: {error}\n" in result.err


def test_a_file_of_this_machine_may_have_a_colon(slice4, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("n1:odd").write_text("odd")
    assert slice4("node", "cp", "./n1:odd", "n1:", "--worker", "1").code == 0
    assert (home(1) / "n1:odd").read_text() == "odd"


def test_a_socket_is_named_and_the_rest_is_copied(slice4, home, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "x").write_text("x")
    os.mkfifo(tmp_path / "t" / "pipe")
    result = slice4("node", "cp", "-r", str(tmp_path / "t"), "n1:", "--worker", "0")
    assert result.code == 70
    assert "t/pipe: not copied: it is neither a file, a directory nor a link" in result.err
    assert (home(0) / "t" / "x").read_text() == "x"


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_goes_leaves_nothing_half_written(slice4, home, tmp_path, ending):
    (tmp_path / "large").write_bytes(bytes(128 * 2**20))
    process = copying(slice4, tmp_path / "large", "n1:")
    until(lambda: any(path.stat().st_size for path in unfinished(home(0))))
    process.send_signal(ending)
    assert process.wait(20) == (130 if ending == signal.SIGINT else -9)
    until(lambda: not unfinished(home(0)))
    assert not (home(0) / "large").exists()


def test_a_copy_to_this_machine_that_is_interrupted_leaves_nothing_here(slice4, home, tmp_path):
    (home(0) / "large").write_bytes(bytes(128 * 2**20))
    (tmp_path / "here").mkdir()
    process = copying(slice4, "n1:large", tmp_path / "here")
    until(lambda: any(path.stat().st_size for path in unfinished(tmp_path / "here")))
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert list((tmp_path / "here").iterdir()) == []


def copying(tpuctl, *argv):
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tpuctl", "node", "cp", *argv, "--worker", "0"],
        env={**os.environ, "TPUCTL_HOME": str(tpuctl.home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def unfinished(directory):
    return list(directory.glob(".tpuctl-part-*"))


def until(is_so):
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
