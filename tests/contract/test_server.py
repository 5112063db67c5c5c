"""`python -m localsim serve` as a process: what it refuses, and how it ends when it must."""

import json
import socket
import sqlite3
import stat
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

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


def post(url, document, control_token=""):
    return _answer(url, json.dumps(document).encode(), control_token)


def get(url, control_token=""):
    return _answer(url, None, control_token)


def _answer(url, body, control_token):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {control_token}"}
    request = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def token(line):
    """The secret of the control port."""
    return Path(line["state_dir"], "control.token").read_text("ascii")


def free_ports(count):
    """The first of so many consecutive ports that nobody uses."""
    for first in range(20_000, 30_000, count):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time-scale", "0"), "--time-scale must be a positive number, not 0.0"),
        (("--time-scale=-1",), "--time-scale must be a positive number, not -1.0"),
        (("--time-scale", "nan"), "--time-scale must be a positive number, not nan"),
        (("--time-scale", "inf"), "--time-scale must be a positive number, not inf"),
        (("--port", "0"), "--port must be from 1 to 65530, not 0"),
        (("--port", "65531"), "--port must be from 1 to 65530, not 65531"),
        (("--port", "65527", "--tls"), "--port must be from 1 to 65526, not 65527"),
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
    assert process.returncode == 62
    assert error == "error: localsim cannot write its state: no such table: tpu_agenda\n"
    assert not (tmp_path / "endpoints.json").exists()


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("tpu_nodes", "UPDATE tpu_nodes SET document = '{'"),
        ("tpu_nodes", "UPDATE tpu_nodes SET document = '{\"x\": 1}'"),
        ("tpu_settings", "UPDATE tpu_settings SET document = '[]'"),
        ("tpu_agenda", "INSERT INTO tpu_agenda VALUES (999, 1, 'fly', 'x')"),
        ("tpu_agenda", "INSERT INTO tpu_agenda VALUES (999, 1, 'remove node', 'a/b/c/d/e/f')"),
        ("tpu_clock", "UPDATE tpu_clock SET now_s = 'x'"),
    ],
)
def test_a_state_that_nobody_can_read_is_one_line(damageable, table, change):
    with closing(sqlite3.connect(damageable / "state.sqlite")) as connection:
        connection.execute(change)
        connection.commit()
    assert refusal_of(damageable) == 62, table


@pytest.mark.parametrize(
    ("name", "content"),
    [("state.sqlite", b""), ("control.token", b"\xff"), ("localsim.json", b"{")],
)
def test_a_file_that_is_damaged_is_one_line(damageable, name, content):
    (damageable / name).write_bytes(content)
    assert refusal_of(damageable) == 62


@pytest.fixture
def damageable(tmp_path):
    """The directory of a server that ended well, with a node in it."""
    with serving(tmp_path) as (process, line):
        nodes = f"{line['tpu_rest']}/v2/projects/{line['project']}/locations/{line['zone']}/nodes"
        post(f"{nodes}?nodeId=a", NODE)
        process.terminate()
        process.wait()
    return tmp_path


def refusal_of(state_dir):
    """The exit code of a server that says in one line why it does not serve."""
    done = subprocess.run(command(state_dir), capture_output=True, text=True, timeout=60)
    assert done.stderr.startswith("error: "), done.stderr
    assert done.stderr.count("\n") == 1
    return done.returncode


def test_time_goes_on_after_kill_9_and_never_back(tmp_path):
    with serving(tmp_path, "--time-scale", "5000") as (process, line):
        post(f"{line['control']}/clock", {"advance_s": 1e6}, token(line))
        nodes = f"{line['tpu_rest']}/v2/projects/{line['project']}/locations/{line['zone']}/nodes"
        post(f"{nodes}?nodeId=a", NODE)
        before_s = get(f"{line['control']}/clock", token(line))["now_s"]
        process.kill()
        process.wait()
    with serving(tmp_path) as (_, line):
        assert get(f"{line['control']}/clock", token(line))["now_s"] >= before_s


def test_metadata_of_the_project_survives_kill_9(tmp_path):
    with serving(tmp_path) as (process, line):
        project = f"{line['compute']}/compute/v1/projects/{line['project']}"
        items = [{"key": "a", "value": "1"}]
        done = post(f"{project}/setCommonInstanceMetadata", {"items": items})
        process.kill()
        process.wait()
    with serving(tmp_path) as (_, line):
        assert get(project)["commonInstanceMetadata"]["items"] == items
        assert get(f"{project}/global/operations/{done['name']}") == done


def test_what_is_written_is_for_the_owner_alone(tmp_path):
    state_dir = tmp_path / "state"
    with serving(state_dir, "--tls"):
        files = [path for path in state_dir.rglob("*") if path.is_file()]
        assert {path.name for path in files} >= {"state.sqlite", "state.sqlite-wal", "admin.json"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_tls_is_there_only_where_it_is_asked_for_and_its_keys_stay(tmp_path):
    with serving(tmp_path) as (_, line):
        assert "google" not in line
        assert not (tmp_path / "google").exists()
    with serving(tmp_path, "--tls") as (_, line):
        first = line["google"]
        key = (tmp_path / "google" / "admin.json").read_bytes()
    with serving(tmp_path) as (_, line):
        assert "google" not in line
    with serving(tmp_path, "--tls") as (_, line):
        assert line["google"] == first
        assert (tmp_path / "google" / "admin.json").read_bytes() == key


def test_keys_that_cannot_be_read_are_one_line(tmp_path):
    with serving(tmp_path, "--tls"):
        (tmp_path / "google" / "admin.json").write_text('{"private_key": "x"}')
    argv = command(tmp_path, "--tls")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (62, "")
    assert done.stderr == f"error: cannot use the keys in {tmp_path / 'google'}: ValueError\n"


def test_fixed_ports_are_consecutive(tmp_path):
    first = free_ports(10)
    with serving(tmp_path, "--tls", "--port", str(first)) as (_, line):
        google = line["google"]
        served = [
            line[key].rpartition(":")[2]
            for key in ("tpu_grpc", "tpu_rest", "storage", "vpc", "control", "compute")
        ]
        served += [google[key].rpartition(":")[2] for key in ("tpu", "tpu_rest", "storage")]
        served.append(google["token"].rpartition(":")[2].removesuffix("/token"))
    assert served == [str(first + index) for index in range(10)]
