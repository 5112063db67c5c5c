"""`tpuctl local shell`: programs of this machine where workers have their own addresses."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from clouds import ISOLATIONS, Cloud, isolation_of, serve

WHAT_IS_THERE = """
import json, os, pathlib, signal, urllib.request
storage = os.environ["STORAGE_EMULATOR_HOST"]
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "names": pathlib.Path("/etc/hosts").read_text().split(),
    "storage": urllib.request.urlopen(f"{storage}/storage/v1/b?project=p").status,
    "context": os.environ["TPUCTL_CONTEXT"],
    "proxies": [name for name in os.environ if name.lower().endswith("_proxy")],
}))
"""


@dataclass(frozen=True)
class Shell:
    """`shell(*argv, stdin=…)`: the command as a process of its own."""

    cloud: Cloud
    mode: str

    def __call__(self, *argv: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-P", "-m", "tpuctl", "local", "shell", *argv],
            env={**os.environ, "TPUCTL_HOME": str(self.cloud.home), **environ},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture(scope="module", params=ISOLATIONS)
def shell(request, tmp_path_factory) -> Iterator[Shell]:
    """A cloud of each kind."""
    mode = isolation_of(request)
    home = tmp_path_factory.mktemp(mode)
    with contextmanager(serve)(home, "--isolation", mode, "--offline") as cloud:
        yield Shell(cloud, mode)


def test_a_command_is_the_same_user_among_the_workers(shell):
    done = shell("--", sys.executable, "-c", WHAT_IS_THERE, HTTPS_PROXY="http://10.9.9.9:1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    names = found.pop("names")
    assert found == {
        "user": [os.getuid(), os.getgid()],
        "storage": 200,
        "context": "local",
        "proxies": [],
    }
    assert ("metadata.google.internal" in names) == (shell.mode == "namespace")
    assert done.stderr.startswith(
        "note: only the endpoints are set" if shell.mode == "process" else ""
    )
    assert len(done.stderr.splitlines()) == (shell.mode == "process")


def test_without_a_command_it_is_the_user_s_shell_and_ends_as_that_does(shell):
    done = shell(stdin="echo $CLOUDSDK_COMPUTE_ZONE; kill -TERM $$\n", SHELL="/bin/sh")
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, f"{shell.cloud.line['zone']}\n")
    told = {"namespace": "inside the network of the local cloud 'local'", "process": "note: only"}
    assert done.stderr.startswith(told[shell.mode])
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_pipe_ends_a_program_in_there_as_anywhere(shell):
    done = shell("--", "sh", "-c", "{ yes; echo $? >&2; } | head -n1")
    assert (done.returncode, done.stdout) == (0, "y\n")
    assert done.stderr.splitlines()[-1] == str(128 + signal.SIGPIPE)


def test_a_program_that_there_is_not(shell):
    done = shell("--", "no-such-program")
    assert (done.returncode, done.stderr) == (10, "error: there is no program 'no-such-program'\n")


@pytest.mark.parametrize("shell", ["namespace"], indirect=True)
def test_a_stale_note_of_where_the_network_is_leads_nowhere(shell):
    note = Path(shell.cloud.line["state_dir"], "vpc.launcher")
    text = note.read_text()
    note.write_text(f"{os.getpid()} 1\n")
    try:
        done = shell("--", "true")
    finally:
        note.write_text(text)
    assert done.returncode == 60
    assert done.stderr.startswith("error: cannot enter the network of the local cloud 'local': ")


@pytest.mark.parametrize("shell", ["namespace"], indirect=True)
def test_no_second_cloud_is_started_where_nobody_outside_would_reach_it(shell):
    tpuctl = ("--", sys.executable, "-P", "-m", "tpuctl")
    again = shell(*tpuctl, "local", "up")
    assert (again.returncode, json.loads(again.stdout)) == (0, shell.cloud.line)
    other = shell(*tpuctl, "local", "up", "--name", "other")
    assert other.returncode == 12
    assert other.stderr.startswith("error: inside `tpuctl local shell` no local cloud can be")
    nested = shell(*tpuctl, "local", "shell", "--", "true")
    assert nested.returncode == 12
    assert nested.stderr.startswith("error: inside `tpuctl local shell` no other one can be opened")


def test_a_cloud_that_is_down(offline):
    assert offline("local", "shell").err == (
        "error: there is no running local cloud 'local'\nhint: run: tpuctl local up\n"
    )
