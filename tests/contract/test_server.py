"""`python -m localsim serve` as a process: what it refuses, and how it ends when it must."""

import json
import sqlite3
import subprocess
import sys
import urllib.request
from contextlib import closing, contextmanager

import pytest

NODE = {"acceleratorType": "v5litepod-4", "runtimeVersion": "v2-alpha-tpuv5-lite"}


def command(state_dir, *options):
    return [sys.executable, "-m", "localsim", "serve", "--state-dir", str(state_dir), *options]


@contextmanager
def serving(state_dir, *options):
    """A server and its line of endpoints; it is killed at the end."""
    argv = command(state_dir, *options)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def post(url, document):
    request = urllib.request.Request(url, json.dumps(document).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time-scale", "0"), "--time-scale must be a positive number, not 0.0"),
        (("--time-scale=-1",), "--time-scale must be a positive number, not -1.0"),
        (("--time-scale", "nan"), "--time-scale must be a positive number, not nan"),
        (("--time-scale", "inf"), "--time-scale must be a positive number, not inf"),
        (("--port", "0"), "--port must be from 1 to 65531, not 0"),
        (("--port", "65532"), "--port must be from 1 to 65531, not 65532"),
    ],
)
def test_numbers_without_a_meaning_are_refused_before_anything_is_written(
    tmp_path, options, message
):
    state_dir = tmp_path / "state"
    done = subprocess.run(command(state_dir, *options), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")
    assert not state_dir.exists()


def test_a_server_whose_time_cannot_pass_ends_and_says_why(tmp_path):
    with serving(tmp_path) as (process, line):
        nodes = f"{line['tpu_rest']}/v2/projects/{line['project']}/locations/{line['zone']}/nodes"
        post(f"{nodes}?nodeId=a", NODE)
        with closing(sqlite3.connect(tmp_path / "state.sqlite", timeout=10)) as connection:
            connection.execute("DROP TABLE tpu_agenda")
        _, error = process.communicate(timeout=30)
    assert process.returncode == 1
    assert error.endswith("sqlite3.OperationalError: no such table: tpu_agenda\n"), error
    assert not (tmp_path / "endpoints.json").exists()
