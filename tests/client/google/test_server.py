"""`python -m localsim serve` as a process: what it refuses, and how it ends when it must."""

import json
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import grpc
import pytest

from localsim.__main__ import main

NODE = {"acceleratorType": "v5litepod-4", "runtimeVersion": "v2-alpha-tpuv5-lite"}


def command(state_dir, *options):
    argv = [sys.executable, "-P", "-m", "localsim", "serve", "--state-dir", str(state_dir)]
    return [*argv, "--isolation", "process", *options]


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
    tmp_path, refusal, options, message
):
    state_dir = tmp_path / "state"
    assert refusal(state_dir, *options) == (2, message)
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


DAMAGES = (
    ("UPDATE tpu_nodes SET document = '{'", "tpu_nodes", "Expecting property name"),
    (
        "INSERT INTO tpu_operations VALUES ('a', '{\"x\": 1}')",
        "tpu_operations",
        "the Operation lacks",
    ),
    ("UPDATE tpu_settings SET document = '[]'", "tpu_settings", "'list' object has no"),
    ("INSERT INTO tpu_agenda VALUES (999, 1, 'fly', 'x')", "tpu_agenda", "'fly' is not a valid"),
    ("UPDATE tpu_clock SET now_s = 'x'", "tpu_clock", "could not convert"),
)


def test_a_record_that_nobody_can_read_is_told_and_the_rest_is_served(damageable):
    with closing(sqlite3.connect(damageable / "state.sqlite")) as connection:
        for change, _, _ in DAMAGES:
            connection.execute(change)
        connection.execute("INSERT INTO tpu_agenda VALUES (998, 1, 'remove node', 'a/b/c/d/e/f')")
        connection.commit()
    with serving(damageable) as (process, line):
        found = {record["table"]: record["cause"] for record in line["unreadable"]}
        control = line["control"]
        assert get(f"{control}/status", token(line))["unreadable"] == line["unreadable"]
        nodes = f"{line['tpu_rest']}/v2/projects/{line['project']}/locations/{line['zone']}/nodes"
        assert get(nodes) == {}
        post(f"{control}/reset", {}, token(line))
        assert get(f"{control}/status", token(line))["unreadable"] == []
        process.terminate()
        _, warnings = process.communicate(timeout=30)
    for _, table, cause in DAMAGES:
        assert found[table].startswith(cause)
        assert f"warning: {table} '" in warnings
    assert warnings.count("run: tpuctl local reset; ") == warnings.count("\n") == len(DAMAGES)
    with serving(damageable) as (_, line):
        assert "unreadable" not in line


def test_objects_of_a_newer_localsim_are_refused(damageable, refusal):
    with closing(sqlite3.connect(damageable / "storage" / "objects.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 99")
    code, message = refusal(damageable)
    assert (code, "has schema 99" in message) == (62, True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.sqlite", b""),
        ("storage/objects.sqlite", b""),
        ("storage/objects.sqlite", b"x" * 5000),
        ("control.token", b"\xff"),
        ("localsim.json", b"{"),
    ],
)
def test_a_file_that_is_damaged_is_one_line(damageable, refusal, name, content):
    (damageable / name).write_bytes(content)
    assert refusal(damageable)[0] == 62


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The directory of a server that ended well, with a node in it."""
    state_dir = tmp_path_factory.mktemp("ended")
    with serving(state_dir) as (process, line):
        nodes = f"{line['tpu_rest']}/v2/projects/{line['project']}/locations/{line['zone']}/nodes"
        post(f"{nodes}?nodeId=a", NODE)
        process.terminate()
        process.wait()
    return state_dir


@pytest.fixture
def damageable(ended, tmp_path):
    """A copy of that directory."""
    return shutil.copytree(ended, tmp_path / "state")


@pytest.fixture
def refusal(monkeypatch, capsys):
    """Exit code and reason of a server, in this process, that says in one line why it is none."""

    def refusal(state_dir, *options):
        monkeypatch.setattr(sys, "argv", command(state_dir, *options)[3:])
        code = main()
        out, err = capsys.readouterr()
        assert (out, err[:7], err.count("\n")) == ("", "error: ", 1)
        return code, err[7:-1]

    return refusal


def test_a_call_under_way_ends_with_the_server_which_says_nothing_about_it(tmp_path):
    scenario = tmp_path / "slow.yaml"
    scenario.write_text("faults: ['ListNodes: latency 1000s']\n")
    with (
        serving(tmp_path / "state", "--scenario", str(scenario)) as (process, line),
        grpc.insecure_channel(line["tpu_grpc"]) as channel,
    ):
        call = channel.unary_unary("/google.cloud.tpu.v2.Tpu/ListNodes").future(b"", timeout=60)
        while not get(f"{line['control']}/faults", token(line))["faults"][0]["met"]:
            pass
        process.terminate()
        _, error = process.communicate(timeout=30)
    assert (call.code(), error) == (grpc.StatusCode.UNAVAILABLE, "")


def test_after_kill_9_time_goes_on_and_never_back_and_metadata_of_the_project_is_there(tmp_path):
    with serving(tmp_path, "--time-scale", "5000") as (process, line):
        post(f"{line['control']}/clock", {"advance_s": 1e6}, token(line))
        project = f"{line['compute']}/compute/v1/projects/{line['project']}"
        items = [{"key": "a", "value": "1"}]
        done = post(f"{project}/setCommonInstanceMetadata", {"items": items})
        nodes = f"{line['tpu_rest']}/v2/projects/{line['project']}/locations/{line['zone']}/nodes"
        post(f"{nodes}?nodeId=a", NODE)
        before_s = get(f"{line['control']}/clock", token(line))["now_s"]
        process.kill()
        process.wait()
    with serving(tmp_path) as (_, line):
        assert get(f"{line['control']}/clock", token(line))["now_s"] >= before_s
        assert get(project)["commonInstanceMetadata"]["items"] == items
        assert get(f"{project}/global/operations/{done['name']}") == done


def test_tls_is_there_only_where_it_is_asked_for_and_its_keys_stay(damageable):
    assert not (damageable / "google").exists()
    first_port = free_ports(10)
    with serving(damageable, "--tls", "--port", str(first_port)) as (_, line):
        first = line["google"]
        key = (damageable / "google" / "admin.json").read_bytes()
        assert ports(line) == [first_port + index for index in range(10)]
        assert_of_the_owner_alone(damageable)
    with serving(damageable) as (_, line):
        assert "google" not in line
    with serving(damageable, "--tls") as (_, line):
        assert line["google"] == first
        assert (damageable / "google" / "admin.json").read_bytes() == key


def assert_of_the_owner_alone(state_dir):
    """Nobody else may look at what a server has written."""
    files = [path for path in state_dir.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"state.sqlite", "state.sqlite-wal", "admin.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    directories = [path for path in (state_dir, *state_dir.rglob("*")) if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in directories} == {0o700}


def test_keys_that_cannot_be_read_are_one_line(damageable, refusal):
    keys = damageable / "google"
    keys.mkdir()
    (keys / "admin.json").write_text('{"private_key": "x"}')
    assert refusal(damageable, "--tls") == (62, f"cannot use the keys in {keys}: ValueError")


def ports(line):
    """The port of each service, in the order of their numbers."""
    google = line["google"]
    served = [
        line[key].rpartition(":")[2]
        for key in ("tpu_grpc", "tpu_rest", "storage", "vpc", "control", "compute")
    ]
    served += [google[key].rpartition(":")[2] for key in ("tpu", "tpu_rest", "storage")]
    served.append(google["token"].rpartition(":")[2].removesuffix("/token"))
    return [int(port) for port in served]
