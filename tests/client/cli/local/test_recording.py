"""`tpuctl record -- COMMAND`, and localsim checked against what was recorded."""

import json
import os
import signal
import subprocess
import sys

import pytest

from client.cli.local import google_recording
from localsim.__main__ import main as localsim_main

LIST = "/google.cloud.tpu.v2.Tpu/ListNodes"
GET_BY_REST = """
import os, urllib.request
base = os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"]
path = "v2/projects/local-project/locations/us-west4-a/nodes"
print(len(urllib.request.urlopen(base + path).read()) > 0)
"""


@pytest.fixture
def record(tmp_path, tpuctl):
    """`record(*argv)`: the exit code and the lines of the cassette."""

    def run(*argv):
        path = tmp_path / "cassette.jsonl"
        result = tpuctl("record", "--to", str(path), "--", *argv, environ={"PATH": "/usr/bin:/bin"})
        assert path.exists(), result.err
        return result, [json.loads(line) for line in path.read_text().splitlines()]

    return run


@pytest.fixture
def check(monkeypatch, capsys):
    """`check(path)`: the exit code and what `python -m localsim check` prints, in this process."""

    def run(path):
        monkeypatch.setattr(sys, "argv", ["localsim", "check", str(path)])
        code = localsim_main()
        return code, *capsys.readouterr()

    return run


def test_what_tpuctl_asks_is_recorded_and_localsim_answers_the_same(record, tmp_path):
    result, (header, call) = record(sys.executable, "-P", "-m", "tpuctl", "node", "list")
    assert result.code == 0
    assert "1 call recorded" in result.err
    assert header["cassette"] == 1
    assert call["call"] == f"grpc {LIST}"
    assert call["request"]["parent"] == "projects/recorded-project/locations/-"
    argv = [sys.executable, "-P", "-m", "localsim", "check", str(tmp_path / "cassette.jsonl")]
    checked = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert (checked.returncode, checked.stdout) == (0, "1 call, 0 answered differently\n")


def test_the_exit_code_is_the_commands(record):
    result, (_, call, *_) = record(
        sys.executable, "-P", "-m", "tpuctl", "node", "describe", "nobody"
    )
    assert result.code == 10
    assert call["error"]["code"] == 5


def test_what_goes_over_rest_is_recorded_too(record):
    result, (_, call) = record(sys.executable, "-c", GET_BY_REST)
    assert result.code == 0
    assert call["call"] == "rest GET /v2/projects/recorded-project/locations/us-west4-a/nodes"
    assert call["status"] == 200


FLEX_START = "qr create q1 -t v5litepod-16 --flex-start --max-run-duration 1h"


def at_one_moment(directory, header, calls):
    """A cassette without the time between its calls, in which the recorded cloud's clock stood."""
    path = directory / "moment.jsonl"
    lines = [header, *({**call, "t_s": 0.0} for call in calls)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_what_it_asks_over_rest_is_recorded_and_answered_the_same(check, record, tmp_path):
    result, (header, *calls) = record(sys.executable, "-P", "-m", "tpuctl", *FLEX_START.split())
    assert result.code == 0
    (created,) = (call for call in calls if call["call"].startswith("rest POST "))
    assert "/queuedResources?queuedResourceId=q1&requestId=" in created["call"]
    assert created["request"]["provisioningModel"] == "FLEX_START"
    assert created["status"] == 200
    code, out, _ = check(at_one_moment(tmp_path, header, calls))
    assert (code, out) == (0, f"{len(calls)} calls, 0 answered differently\n")


def test_the_published_recording_of_google_s_api_is_answered_the_same(check, tmp_path):
    path = tmp_path / "google.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in google_recording.lines()))
    assert check(path)[1] == "7 calls, 0 answered differently\n"


def test_a_difference_is_one_line_and_exit_code_1(check, record, tmp_path):
    _, (header, call) = record(sys.executable, "-P", "-m", "tpuctl", "node", "list")
    call["response"] = {"unreachable": ["projects/recorded-project/locations/us-west4-a"]}
    path = tmp_path / "doctored.jsonl"
    path.write_text(f"{json.dumps(header)}\n{json.dumps(call)}\n")
    code, out, _ = check(path)
    assert code == 1
    assert "line 2 ListNodes: response.unreachable: recorded [" in out


def test_a_difference_over_rest_names_verb_and_path(check, record, tmp_path):
    _, (header, call) = record(sys.executable, "-c", GET_BY_REST)
    call["call"], call["response"] = f"{call['call']}?alt=json", {"nodes": [{}]}
    path = tmp_path / "doctored.jsonl"
    path.write_text(f"{json.dumps(header)}\n{json.dumps(call)}\n")
    assert check(path)[1].startswith(
        "line 2 GET /v2/projects/recorded-project/locations/us-west4-a/nodes: response.nodes: "
    )


def test_nothing_is_written_over(record, tmp_path, tpuctl):
    (tmp_path / "mine.jsonl").write_text("precious")
    result = tpuctl("record", "--to", str(tmp_path / "mine.jsonl"), "--", "true")
    assert result.code == 11
    assert (tmp_path / "mine.jsonl").read_text() == "precious"


def test_a_program_that_is_not_there(tmp_path, tpuctl):
    result = tpuctl("record", "--to", str(tmp_path / "c.jsonl"), "--", "no-such-program")
    assert result.code == 10
    assert result.err.startswith("error: there is no program 'no-such-program'\n")
    assert not (tmp_path / "c.jsonl").exists()


def test_sigterm_ends_the_command_too(cloud, tmp_path):
    argv = [sys.executable, "-P", "-m", "tpuctl", "record", "--to", str(tmp_path / "c.jsonl"), "--"]
    waiting = "import time; print('started', flush=True); time.sleep(600)"
    environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
    with subprocess.Popen(
        [*argv, sys.executable, "-c", waiting], stdout=subprocess.PIPE, env=environ
    ) as process:
        assert process.stdout.readline() == b"started\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 143


def recorded(call, t_s="0", request="null"):
    """The text of a cassette of one call."""
    line = f'"t_s":{t_s},"call":"{call}","request":{request},"response":{{}},"status":200'
    return f'{{"cassette":1}}\n{{{line}}}\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense\n",
        '{"cassette": 9}\n',
        '{"cassette":1}\n{"t_s":1}\n',
        recorded("rest GET @127.0.0.1:1/v2"),  # would be called on another host
        recorded("rest GET http://evil.example/v2"),
        recorded("rest G\\u0000T /v2"),
        recorded("rest GET /v2", t_s="1e999"),
        recorded("rest GET /v2", t_s="1" + "0" * 400),
        recorded("rest GET /v2", request="[" * 10_000 + "]" * 10_000),
    ],
)
def test_what_is_no_cassette_is_refused_in_one_line(check, tmp_path, text):
    (tmp_path / "c.jsonl").write_text(text)
    code, _, err = check(tmp_path / "c.jsonl")
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_request_that_localsim_cannot_read_is_a_difference(check, tmp_path):
    text = recorded("grpc /google.cloud.tpu.v2.Tpu/GetNode", request='{"tomorrow":1}')
    (tmp_path / "c.jsonl").write_text(text)
    code, out, err = check(tmp_path / "c.jsonl")
    assert (code, err) == (1, "")
    assert "localsim cannot read the request" in out
