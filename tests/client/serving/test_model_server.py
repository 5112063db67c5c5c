"""The model server over real sockets: predictions, bad input, slow and lost clients, its end."""

import json
import re
import signal
import socket
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.serving.probe_model import FAILS, HANGS, NOT_A_NUMBER
from client.serving.served import (
    INFER,
    raw_request,
    request_body,
    run_to_its_end,
    serving,
    started_server,
)
from tpuctl.checkpoint import Checkpointer
from tpuctl.jobs.workers import library


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    """The file that the model waits for."""
    return tmp_path_factory.mktemp("gate") / "open"


@pytest.fixture(scope="module")
def served(gate):
    with serving("--max-batch", "8", "--queue-rows", "24", GATE=str(gate)) as found:
        yield found
        found.end()
    assert not any("Traceback" in line for line in found.lines)


def is_well(served):
    status, found = served.infer(21)
    assert (status, found["outputs"][0]["data"]) == (200, [42, 0])


def read_answer(client):
    """The status and the document of the next answer on a socket."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(65536)
        assert part, data
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    parts = [body]
    while sum(map(len, parts)) < length:
        parts.append(client.recv(1_000_000))
        assert parts[-1]
    body = b"".join(parts)
    return int(head.split()[1]), json.loads(body[:length])


def test_health_and_metadata(served):
    paths = {
        "/v2/health/live": 200, "/v2/health/ready": 200, "/health": 200, "/v2": 200,
        "/v2/models/probe_model/ready": 200, "/v2/models/probe_model/versions/1": 200,
        "/v2/models/probe_model/versions/1/ready": 200, "/v2/models/probe_model/versions/2": 404,
        "/v2/models/other": 404, "/v2/models/probe_model/stats": 400, "/other": 404,
        "/v2/repository/index": 400, INFER: 405,
    }  # fmt: skip
    found = {}
    for path, status in paths.items():
        answer = served.ask("GET", path)
        found[path] = answer[0]
        assert ("error" in json.loads(answer[2])) == (status >= 400)
        assert answer[1].get("Allow") == ("POST" if status == 405 else None)
    assert found == paths
    assert served.ask("HEAD", "/health")[::2] == (200, b"")
    assert json.loads(served.ask("GET", "/v2/models/probe_model")[2]) == {
        "name": "probe_model",
        "versions": ["1"],
        "platform": "tpuctl",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "note", "datatype": "BYTES", "shape": [-1]},
        ],
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "note", "datatype": "BYTES", "shape": [-1]},
        ],
    }


def test_predictions_as_json_and_as_binary_data(served):
    status, found = served.infer(1, 2, id="q")
    assert status == 200
    assert found == {
        "model_name": "probe_model", "model_version": "1", "id": "q",
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [2, 2], "data": [2, 0, 4, 0]},
            {"name": "note", "datatype": "BYTES", "shape": [2], "data": ["n1", "n2"]},
        ],
    }  # fmt: skip
    data, note = struct.pack("<2f", 5, 6), struct.pack("<I2s", 2, b"ok")
    document = {
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, 2],
             "parameters": {"binary_data_size": 8}},
            {"name": "note", "datatype": "BYTES", "shape": [1],
             "parameters": {"binary_data_size": 6}},
        ],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
    }  # fmt: skip
    text = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    status, headers, body = served.ask("POST", INFER, text + data + note, headers)
    length = int(headers["Inference-Header-Content-Length"])
    assert (status, struct.unpack("<2f", body[length:])) == (200, (10, 12))
    assert json.loads(body[:length])["outputs"][0]["parameters"] == {"binary_data_size": 8}


def test_rows_of_a_batch_go_back_to_those_who_asked(served, gate):
    def ask(value):
        status, found = served.infer(value, -value)
        return status, found["outputs"][0]["data"], found["outputs"][1]["data"]

    before = served.metric("batch_rows_count")
    with ThreadPoolExecutor(11) as pool:
        with served.busy(gate):
            asked = [pool.submit(ask, value) for value in range(1, 12)]
            served.wait_for_rows(22)
        answers = [each.result() for each in asked]
    assert answers == [
        (200, [2 * value, 0, -2 * value, 0], [f"n{value}", f"n{-value}"]) for value in range(1, 12)
    ]
    assert served.metric("batch_rows_count") - before == 1 + 3  # of 8, 8 and 6 rows
    assert served.metric("padding_rows_total") > 0
    assert served.metric("in_flight") == served.metric("queued_rows") == 0


def test_a_row_that_fails_harms_no_other_of_its_batch(served, gate):
    values = [FAILS if place in (3, 7) else place for place in range(10)]
    with ThreadPoolExecutor(10) as pool:
        with served.busy(gate):
            asked = [pool.submit(served.infer, value) for value in values]
            served.wait_for_rows(10)
        answers = [each.result() for each in asked]
    assert [status for status, _ in answers] == [500 if each == FAILS else 200 for each in values]
    errors = {found["error"] for status, found in answers if status == 500}
    assert len(errors) == 1
    assert re.fullmatch(
        r"predict of probe_model fails: ValueError: bad row \(probe_model.py, line \d+\)",
        errors.pop(),
    )
    status, found = served.infer(NOT_A_NUMBER)
    assert (status, found["error"]) == (
        500, "output y has NaN or infinity, which JSON cannot hold: ask for binary data",
    )  # fmt: skip
    is_well(served)


def test_bad_requests_over_http(served):
    body = request_body(1)
    cases = {
        b"no HTTP at all\r\n\r\n": 400,
        b"GET / HTTP/1.1\r\n\r\n": 400,
        raw_request(b""): 400,
        raw_request(b"{]"): 400,
        raw_request(body, "/v2/models/other/infer"): 404,
        raw_request(body, headers="Content-Encoding: br\r\n"): 415,
        raw_request(body, headers="Content-Length: 3\r\n"): 400,
        raw_request(body, headers="Inference-Header-Content-Length: 1x\r\n"): 400,
        raw_request(body, headers="Inference-Header-Content-Length: 99999\r\n"): 400,
        raw_request(request_body(*range(9))): 400,
        raw_request(request_body(1, parameters={"timeout": -1})): 400,
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999\r\n\r\n": 413,
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n": 400,
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n": 413,
        b"GET / HTTP/1.1\r\n" + b"A: " + b"a" * 20_000: 431,
    }
    found = {}
    for data in cases:
        with served.connect() as client:
            client.sendall(data)
            answered, document = read_answer(client)
            assert list(document) == ["error"]
            found[data] = answered
    assert found == cases
    is_well(served)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(min_size=1, max_size=80), st.integers(0, 400), st.booleans())
def test_any_damage_to_a_request_is_answered(served, noise, place, is_inserted):
    data = raw_request(request_body(3))
    place = min(place, len(data))
    damaged = data[:place] + noise + data[place + (0 if is_inserted else len(noise)) :]
    with served.connect() as client:
        client.sendall(damaged)
        client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while client.recv(65536):
                pass
    is_well(served)


def test_requests_behind_each_other_on_one_connection(served):
    with served.connect() as client:
        client.sendall(b"".join(raw_request(request_body(value)) for value in (1, FAILS, 3)))
        statuses = []
        stream = client.makefile("rb")
        for _ in range(3):
            statuses.append(int(stream.readline().split()[1]))
            length = 0
            while (line := stream.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length"):
                    length = int(line.split()[1])
            stream.read(length)
        assert statuses == [200, 500, 200]


def test_chunks_and_expectations(served):
    body = request_body(4)
    head = f"POST {INFER} HTTP/1.1\r\nHost: h\r\n"
    with served.connect() as client:
        client.sendall(
            f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert read_answer(client)[0] == 200
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for start in range(0, len(body), 40):
            part = body[start : start + 40]
            client.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        client.sendall(b"0\r\n\r\n")
        status, found = read_answer(client)
        assert (status, found["outputs"][0]["data"]) == (200, [8, 0])


def test_a_lost_client_holds_no_batch_and_a_full_queue_is_answered(served, gate):
    before = served.metric("abandoned_total")
    with served.busy(gate), ExitStack() as stack:
        lost = [stack.enter_context(served.connect()) for _ in range(4)]
        for client in lost:
            client.sendall(raw_request(request_body(*range(6))))
        served.wait_for_rows(24)
        status, headers, body = served.ask("POST", INFER, request_body(1))
        assert (status, headers["Retry-After"]) == (429, "1")
        assert json.loads(body) == {"error": "too many requests wait for the model"}
        for client in lost:
            client.close()
        while served.metric("abandoned_total") < before + 4:
            pass
    is_well(served)
    assert served.metric("in_flight") == 0


def test_a_request_is_answered_by_its_deadline(served, gate):
    with served.busy(gate):
        status, found = served.infer(1, parameters={"timeout": 50_000})
    assert (status, found["error"]) == (504, "the request was not answered within 0.05 s")
    is_well(served)


def test_it_is_not_ready_before_the_model_is_and_ends_at_once(tmp_path):
    with serving(is_ready=False, LOAD_S="60") as served:
        assert served.ask("GET", "/v2/health/live")[0] == 200
        assert served.ask("GET", "/v2/health/ready")[0] == 503
        status, found = served.infer(1)
        assert (status, found) == (503, {"error": "the model is being loaded"})
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(20) == 0


def test_what_ends_a_start_is_one_line_and_its_exit_code(served):
    cases = {
        "load of probe_model fails: ValueError: no weights": (71, [], {"FAILS_TO_LOAD": "1"}),
        "there is no checkpoint under": (51, ["--checkpoint", "no-such"], {}),
        "--max-batch must be greater than 0, not 0": (2, ["--max-batch", "0"], {}),
        f"port {served.port} cannot be opened": (60, ["--port", str(served.port)], {}),
    }
    wrong = {}
    for text, (code, arguments, environ) in cases.items():
        exit_code, lines = run_to_its_end(*arguments, **environ)
        errors = [line for line in lines if line.startswith("error: ")]
        if (exit_code, len(errors)) != (code, 1) or text not in errors[0]:
            wrong[text] = exit_code, lines
    assert wrong == {}


def test_a_signal_lets_come_what_comes_and_a_second_one_ends_it():
    with serving("--grace-s", "30") as served, served.connect() as client:
        client.sendall(raw_request(request_body(2)))
        assert read_answer(client)[0] == 200
        served.process.send_signal(signal.SIGTERM)
        served.wait_for("a signal came")
        client.sendall(raw_request(request_body(2)))
        assert read_answer(client)[0] == 200
        assert client.recv(10) == b""  # the last answer of its connection
        assert served.ask("GET", "/health")[0] == 503
        status, headers, _ = served.ask("POST", INFER, request_body(2))
        assert (status, headers["Connection"]) == (200, "close")
        with served.connect() as hanging:
            hanging.sendall(raw_request(request_body(HANGS)))
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(20) == 128 + signal.SIGTERM


def test_what_is_in_flight_is_answered_before_the_end(gate):
    with serving("--grace-s", "0", GATE=str(gate)) as served:
        with served.busy(gate):
            served.process.send_signal(signal.SIGTERM)
            served.wait_for("a signal came")
        assert served.process.wait(20) == 0


def test_an_answer_is_sent_to_its_end_before_the_end():
    note = "n" * 8_000_000
    document = json.loads(request_body(1))
    document["inputs"][1]["data"] = [note]
    with serving("--grace-s", "0") as served, served.connect() as client:
        client.sendall(raw_request(json.dumps(document).encode()))
        while not served.metric('requests_total{code="200"}'):
            pass
        served.process.send_signal(signal.SIGTERM)
        served.wait_for("a signal came")
        status, found = read_answer(client)
        assert (status, found["outputs"][1]["data"] == [note]) == (200, True)
        assert served.process.wait(20) == 0


def test_what_is_not_answered_by_then_is_given_up():
    with serving("--grace-s", "0", "--drain-s", "0.2") as served, served.connect() as client:
        client.sendall(raw_request(request_body(HANGS)))
        while not served.metric("in_flight"):
            pass
        served.process.send_signal(signal.SIGTERM)
        served.wait_for(r"requests given up after 0.2 s: 1$")
        assert served.process.wait(20) == 0
        assert client.recv(10) == b""


def test_a_step_or_the_newest_one_is_served_and_is_the_version(tmp_path):
    with Checkpointer(str(tmp_path), 0, 1, every=1) as checkpointer:
        checkpointer.restore()
        checkpointer.save(4, {"factor": np.float32(10)}, force=True)
        checkpointer.wait()
        checkpointer.save(5, {"factor": np.float32(20)}, force=True)
        checkpointer.wait()
    step = str(tmp_path / "step_000000000004")
    with serving("--name", "ten", TPUCTL_CHECKPOINT=step) as served:
        status, _, body = served.ask("POST", "/v2/models/ten/infer", request_body(3))
        assert (status, json.loads(body)["outputs"][0]["data"]) == (200, [30, 0])
    with serving("--name", "ten", TPUCTL_CHECKPOINT_DIR=str(tmp_path)) as served:
        assert json.loads(served.ask("GET", "/v2/models/ten")[2])["versions"] == ["5"]
        status, _, body = served.ask("POST", "/v2/models/ten/versions/5/infer", request_body(3))
        assert (status, json.loads(body)["outputs"][0]["data"]) == (200, [60, 0])


def test_a_job_has_it_in_its_library(tmp_path):
    (tmp_path / "library.zip").write_bytes(library.build_archive())
    (tmp_path / "named_model.py").write_text(
        """import tpuctl.serving.server.serve as serve
INPUTS = {"x": ("FP32", [-1])}
def load(checkpoint):
    return serve.__file__
def predict(model, batch):
    return {"file": [model] * len(batch["x"])}
""",
        "utf-8",
    )
    archive = str(tmp_path / "library.zip")
    with serving(module="named_model", cwd=tmp_path, PYTHONPATH=archive) as served:
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}]}
        _, _, answer = served.ask("POST", "/v2/models/named_model/infer", json.dumps(body))
        assert json.loads(answer)["outputs"][0]["data"][0].startswith(archive)


def test_a_program_serves_functions_of_its_own():
    program = """
from tpuctl.serving import ServerOptions, serve
serve(lambda checkpoint: 3, lambda model, batch: {"y": batch["x"] * model},
      {"x": ("INT64", [-1])}, options=ServerOptions(port=0, name="triple"))
"""
    with started_server([sys.executable, "-c", program]) as served:
        body = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [2], "data": [4, -5]}]}
        status, _, answer = served.ask("POST", "/v2/models/triple/infer", json.dumps(body))
        assert (status, json.loads(answer)["outputs"][0]["data"]) == (200, [12, -15])
        served.process.send_signal(signal.SIGINT)
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(20) == 0
