"""The model server through clients that nobody here wrote: tritonclient and curl."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from client.serving.served import INFER, PROBE, request_body, serving

pytestmark = pytest.mark.matrix

NAME = PROBE.stem


@pytest.fixture(scope="module")
def served():
    with serving() as found:
        yield found


@pytest.fixture
def triton(served):
    client = pytest.importorskip("tritonclient.http").InferenceServerClient(
        f"127.0.0.1:{served.port}", concurrency=4
    )
    yield client
    client.close()


def inputs(values, *, is_binary=True):
    from tritonclient.http import InferInput

    x = InferInput("x", [len(values), 2], "FP32")
    x.set_data_from_numpy(np.array([[each, 1] for each in values], np.float32), is_binary)
    note = InferInput("note", [len(values)], "BYTES")
    note.set_data_from_numpy(np.array([f"n{each}" for each in values], object), is_binary)
    return [x, note]


def test_tritonclient_finds_server_and_model(triton):
    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready(NAME, "1")
    assert not triton.is_model_ready("other")
    assert triton.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert triton.get_model_metadata(NAME)["inputs"][0] == {
        "name": "x", "datatype": "FP32", "shape": [-1, 2],
    }  # fmt: skip


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("asks_binary", [True, False])
def test_tritonclient_predicts(triton, is_binary, asks_binary):
    from tritonclient.http import InferRequestedOutput

    outputs = [InferRequestedOutput(name, binary_data=asks_binary) for name in ("y", "note")]
    for codings in ({}, {"request_compression_algorithm": "gzip"}):
        answer = triton.infer(
            NAME, inputs([1, 2], is_binary=is_binary), outputs=outputs, request_id="r",
            timeout=5_000_000, **codings,
        )  # fmt: skip
        assert answer.as_numpy("y").tolist() == [[2, 2], [4, 2]]
        notes = [
            each if isinstance(each, str) else each.decode() for each in answer.as_numpy("note")
        ]
        assert notes == ["n1", "n2"]
        assert answer.get_response()["id"] == "r"


def test_tritonclient_predicts_at_once(triton):
    asked = [triton.async_infer(NAME, inputs([value])) for value in range(40)]
    assert [each.get_result().as_numpy("y")[0, 0] for each in asked] == [
        2 * value for value in range(40)
    ]


def test_tritonclient_gets_errors_of_the_protocol(triton):
    from tritonclient.http import InferInput, InferRequestedOutput
    from tritonclient.utils import InferenceServerException

    narrow = InferInput("x", [1, 1], "FP32")
    narrow.set_data_from_numpy(np.zeros((1, 1), np.float32))
    calls = {
        "there is no model 'other'": lambda: triton.infer("other", inputs([1])),
        "has no version '3'": lambda: triton.infer(NAME, inputs([1]), model_version="3"),
        "has the shape [1, 1]": lambda: triton.infer(NAME, [narrow]),
        "no output 'z'": lambda: triton.infer(
            NAME, inputs([1]), outputs=[InferRequestedOutput("z")]
        ),
        "sequence_id is not supported": lambda: triton.infer(NAME, inputs([1]), sequence_id=3),
        "'config' of a model is not supported": lambda: triton.get_model_config(NAME),
        "/v2/systemsharedmemory/status is not supported": triton.get_system_shared_memory_status,
        "/v2/repository/index is not supported": triton.get_model_repository_index,
    }
    for text, call in calls.items():
        with pytest.raises(InferenceServerException) as caught:
            call()
        assert text in caught.value.message()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(served, tmp_path):
    body = tmp_path / "body.json"
    body.write_bytes(request_body(*range(60), padding="x" * 1_100_000))
    url = f"http://127.0.0.1:{served.port}{INFER}"
    for options in (["--data", f"@{body}"], ["-X", "POST", "-T", str(body), "-H", "Expect:"]):
        done = subprocess.run(
            ["curl", "-sS", "--fail", *options, url], capture_output=True, check=True, timeout=30
        )
        assert json.loads(done.stdout)["outputs"][0]["data"][-2:] == [118, 0]
