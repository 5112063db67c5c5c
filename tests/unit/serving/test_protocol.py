"""Requests of the Open Inference Protocol to arrays and back; what is wrong gets its own error."""

import json
import struct
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.serving.datatypes import DTYPES
from tpuctl.serving.program import TensorSpec
from tpuctl.serving.protocol.infer_request import LARGE_JSON_BYTES, RequestRules, decode_request
from tpuctl.serving.protocol.infer_response import ResponseEncoder
from tpuctl.serving.protocol.paths import parse_model_path
from tpuctl.serving.protocol.protocol_error import ProtocolError
from tpuctl.serving.protocol.tensor_values import PIECE_VALUES

RULES = RequestRules({"x": TensorSpec("FP32", (-1, 2))}, max_rows=4)
ENCODER = ResponseEncoder("m", "7")
CLASSES = {"classification": 3}
NUMBERS = sorted(DTYPES.keys() - {"BYTES", "BF16"})


def tensor(**changes):
    given = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2.5], **changes}
    return {name: value for name, value in given.items() if value is not None}


def body(*tensors, **members):
    return json.dumps({"inputs": list(tensors) or [tensor()], **members}).encode()


def with_binary(data, *, declared=None, **changes):
    size = len(data) if declared is None else declared
    text = body(tensor(data=None, parameters={"binary_data_size": size}, **changes))
    return text + data, len(text)


def refusal(data, json_bytes=None, rules=RULES):
    with pytest.raises(ProtocolError) as caught:
        decode_request(data, json_bytes, rules)
    return caught.value.status, caught.value.message


def test_values_come_flat_or_nested_and_as_binary_data():
    for data in ([1, 2.5, 3, 4], [[1, 2.5], [3, 4]]):
        asked = decode_request(body(tensor(shape=[2, 2], data=data), id="a"), None, RULES)
        assert asked.inputs["x"].tolist() == [[1, 2.5], [3, 4]]
        assert (asked.id, asked.rows, asked.shapes) == ("a", 2, ((2,),))
    asked = decode_request(*with_binary(struct.pack("<2f", 1, 2.5)), RULES)
    assert asked.inputs["x"].tolist() == [[1, 2.5]]
    assert asked.inputs["x"].dtype == np.float32


def test_what_is_wrong_with_a_request_is_a_client_error_that_says_so():
    pair = struct.pack("<2f", 1, 2)
    cases = {
        "not JSON": b"{",
        "not JSON: 'utf-8'": b"\xff",
        "nested too deep": b"[" * 100_000,
        "NaN is not JSON": body(tensor(data=[1, float("nan")])),
        "not a JSON object": b"[1]",
        "inputs of the request are not a list": b"{}",
        "an input of the request is not an object": body(3),
        "the request has no input x": b'{"inputs": []}',
        "input x is there twice": body(tensor(), tensor()),
        "no input 'y'; its inputs are: x": body(tensor(name="y")),
        "no input [1]": body(tensor(name=[1])),
        "is 'FP64'; the model takes FP32": body(tensor(datatype="FP64")),
        "has the shape [1, 3]": body(tensor(shape=[1, 3])),
        "has the shape [2]": body(tensor(shape=[2])),
        "has the shape [True, 2]": body(tensor(shape=[True, 2])),
        "has the shape [-1, 2]": body(tensor(shape=[-1, 2])),
        "has the shape None": body(tensor(shape=None)),
        "has 0 rows": body(tensor(shape=[0, 2], data=[])),
        "has 5 rows; it may have 1 to 4": body(tensor(shape=[5, 2], data=[0] * 10)),
        "has 3 values; its shape needs 2": body(tensor(data=[1, 2, 3])),
        "its shape needs 2000000000000": body(tensor(shape=[10**12, 2])),
        "data of input x is not a list": body(tensor(data="ab")),
        "values beside lists": body(tensor(data=[1, [2]])),
        "values that FP32 does not hold": body(tensor(data=["1", "2"])),
        "FP32 does not hold": body(tensor(data=[True, 1])),
        "is beyond the range of FP32": body(tensor(data=[10**400, 1])),
        "NaN or infinity in row 0": body(tensor(data=[1e39, 1])),
        "parameters of input x are not an object": body(tensor(parameters=[])),
        "there is no header": body(tensor(data=None, parameters={"binary_data_size": 8})),
        "shared memory is not supported": body(tensor(parameters={"shared_memory_region": "r"})),
        "parameter sequence_id is not supported": body(parameters={"sequence_id": 3}),
        "is not a number of microseconds": body(parameters={"timeout": "soon"}),
        "id of the request is not a string": body(id=3),
        "outputs of the request are not a list": body(outputs={}),
        "an output of the request is not an object": body(outputs=[{}]),
        "parameter classification": body(outputs=[{"name": "y", "parameters": CLASSES}]),
        "the header says 99 bytes": (body(), 99),
        "has 4 bytes of binary data; its shape needs 8": with_binary(pair[:4]),
        "has 8 bytes; the body has 4 left": with_binary(pair[:4], declared=8),
        "4 bytes that belong to no input": with_binary(pair + pair[:4], declared=8),
        "binary_data_size of input x is not": with_binary(pair, declared=-8),
        "NaN or infinity": with_binary(struct.pack("<2f", 1, float("inf"))),
    }  # fmt: skip
    wrong = {}
    for text, data in cases.items():
        status, message = refusal(*(data if isinstance(data, tuple) else (data,)))
        if status != 400 or text not in message or "\n" in message:
            wrong[text] = (status, message)
    assert wrong == {}


def test_several_inputs_come_in_any_order_and_have_as_many_rows():
    rules = RequestRules({"a": TensorSpec("INT8", (-1,)), "b": TensorSpec("INT8", (-1,))}, 9)
    given = {
        name: tensor(name=name, datatype="INT8", shape=[len(data)], data=data)
        for name, data in {"a": [1, 2], "b": [3, 4], "c": [3]}.items()
    }
    asked = decode_request(body(given["b"], given["a"]), None, rules)
    assert {name: array.tolist() for name, array in asked.inputs.items()} == {
        "a": [1, 2], "b": [3, 4],
    }  # fmt: skip
    assert list(asked.inputs) == ["a", "b"]
    uneven = body(given["a"], {**given["c"], "name": "b"})
    assert "different numbers of rows: {'a': 2, 'b': 1}" in refusal(uneven, None, rules)[1]
    assert "the request has no input b" in refusal(body(given["a"]), None, rules)[1]


def test_values_that_are_not_finite_reach_the_model_if_it_wants_them():
    rules = RequestRules(RULES.inputs, 4, refuses_non_finite=False)
    asked = decode_request(*with_binary(struct.pack("<2f", float("nan"), 1)), rules)
    assert np.isnan(asked.inputs["x"][0, 0])


def test_what_a_client_asks_of_the_answer():
    asked = decode_request(
        body(
            outputs=[{"name": "y", "parameters": {"binary_data": True}}, {"name": "z"}],
            parameters={"binary_data_output": True, "timeout": 2_500_000, "priority": 1},
        ),
        None,
        RULES,
    )
    assert asked.outputs == (("y", True), ("z", False))
    assert (asked.is_binary, asked.timeout_s) == (True, 2.5)


def both_ways(datatype, array):
    """An array that went out as JSON and as binary data, and came in again."""
    rules = RequestRules(
        {"y": TensorSpec(datatype, (-1, *array.shape[1:]))}, len(array), refuses_non_finite=False
    )
    for is_binary in (False, True):
        if datatype == "BF16" and not is_binary:
            continue
        asked = decode_request(body(parameters={"binary_data_output": is_binary}), None, RULES)
        answer = ENCODER.encode(asked, {"y": array})
        found = json.loads(answer.body[: answer.json_bytes])
        assert (found["model_name"], found["model_version"]) == ("m", "7")
        back = {**found, "inputs": found["outputs"]}
        text = json.dumps(back).encode()
        rest = b"" if answer.json_bytes is None else answer.body[answer.json_bytes :]
        yield decode_request(text + rest, len(text) if rest else None, rules).inputs["y"]


@given(st.sampled_from(NUMBERS), st.integers(1, 3), st.integers(1, 3), st.randoms())
def test_every_datatype_goes_out_and_comes_in_as_it_was(datatype, rows, width, random):
    data = random.randbytes(rows * width * DTYPES[datatype].itemsize)
    array = np.frombuffer(data, np.uint8).view(np.uint8)
    array = (array & 1).astype(bool) if datatype == "BOOL" else array.view(DTYPES[datatype])
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            array = np.nan_to_num(array, nan=0, posinf=1, neginf=-1)
    for found in both_ways(datatype, array.reshape(rows, width)):
        assert found.dtype == DTYPES[datatype]
        assert np.array_equal(found, array.reshape(rows, width))


@pytest.mark.parametrize("datatype", ["FP64", "INT32", "BOOL", "BYTES"])
def test_more_values_than_are_converted_at_once_go_out_and_come_in(datatype):
    numbers = np.arange(2 * PIECE_VALUES + 1) % 251
    kinds = {"BYTES": object, "BOOL": bool}
    array = numbers.astype(kinds.get(datatype) or DTYPES[datatype])
    if datatype == "BYTES":
        array[:] = [str(number).encode() for number in numbers]
    for found in both_ways(datatype, array):
        assert np.array_equal(found, array)


def test_other_threads_may_run_at_each_number_of_a_large_request():
    count = LARGE_JSON_BYTES // 4
    rules = RequestRules({"x": TensorSpec("FP32", (-1, 1))}, max_rows=count)
    data = body(tensor(shape=[count, 1], data=[1, 2.5] * (count // 2)))
    calls = []
    # At the start of a function of Python the interpreter goes to a thread that waits for it.
    sys.setprofile(lambda frame, event, _: calls.append(frame) if event == "call" else None)
    try:
        asked = decode_request(data, None, rules)
    finally:
        sys.setprofile(None)
    assert asked.rows == count
    assert len(calls) > count


def test_bytes_and_bfloat16_go_out_and_come_in():
    texts = np.array([[b"a", b""], ["é".encode(), b"0"]], object)
    for found in both_ways("BYTES", texts):
        assert found.tolist() == texts.tolist()
    halves = np.array([[1.5], [-3.25]], ml_dtypes.bfloat16)
    for found in both_ways("BF16", halves):
        assert found.tolist() == [[1.5], [-3.25]]


def test_outputs_that_json_does_not_hold_are_an_error_of_that_request():
    asked = decode_request(body(), None, RULES)
    wrong = {
        "NaN or infinity": np.array([np.nan]),
        "bytes that are not UTF-8": np.array([b"\xff"], object),
        "is not text or bytes": np.array([3, None], object),
        "complex128, which the protocol cannot": np.array([1j]),
    }
    for text, array in wrong.items():
        with pytest.raises(ProtocolError, match=text) as caught:
            ENCODER.encode(asked, {"y": array})
        assert caught.value.status == 500
    unknown = decode_request(body(outputs=[{"name": "q"}]), None, RULES)
    with pytest.raises(ProtocolError, match="no output 'q'; its outputs are: y") as caught:
        ENCODER.encode(unknown, {"y": np.ones(1)})
    assert caught.value.status == 400


NAMES = st.text(max_size=3)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
MEMBERS = ("name", "datatype", "shape", "data", "parameters")
TENSORS = st.fixed_dictionaries({}, optional={name: ANYTHING for name in MEMBERS}).map(
    lambda changes: {**tensor(), **changes}
)


@given(
    st.fixed_dictionaries(
        {"inputs": ANYTHING | st.lists(TENSORS, max_size=3)},
        optional={name: ANYTHING for name in ("id", "outputs", "parameters")},
    ),
    st.binary(max_size=20),
    st.none() | st.integers(-30, 5),
)
def test_any_request_is_read_or_refused(document, rest, change):
    text = json.dumps(document).encode()
    data = text + rest
    json_bytes = None if change is None else max(0, len(text) + change)
    try:
        decode_request(data, json_bytes, RULES)
    except ProtocolError as error:
        assert 400 <= error.status < 500


@given(st.binary(max_size=60), st.none() | st.integers(0, 80))
def test_any_bytes_are_refused(data, json_bytes):
    assert refusal(data, json_bytes)[0] == 400


@given(st.binary(max_size=40), st.integers(0, 3))
def test_any_lengths_of_texts_are_read_or_refused(data, count):
    rules = RequestRules({"x": TensorSpec("BYTES", (-1,))}, 9)
    try:
        asked = decode_request(*with_binary(data, datatype="BYTES", shape=[count]), rules)
    except ProtocolError as error:
        assert error.status == 400
    else:
        assert sum(4 + len(text) for text in asked.inputs["x"]) == len(data)


def test_paths_of_the_protocol():
    assert parse_model_path("GET", "/v2/models/a%20b?x=1") == ("a b", None, "")
    assert parse_model_path("POST", "/v2/models/m/versions/3/infer") == ("m", "3", "infer")
    wrong = {
        ("GET", "/v3"): 404, ("GET", "/v2/models/m/infer"): 405, ("POST", "/v2/models/m"): 405,
        ("POST", "/v2/models/m/generate"): 400, ("POST", "/v2/repository/index"): 400,
        ("GET", "/v2/systemsharedmemory/status"): 400, ("GET", "/v2/models/"): 404,
    }  # fmt: skip
    for asked, status in wrong.items():
        with pytest.raises(ProtocolError) as caught:
            parse_model_path(*asked)
        assert (asked, caught.value.status) == (asked, status)
        allowed = {"GET": "POST", "POST": "GET, HEAD"}[asked[0]] if status == 405 else ""
        assert caught.value.allow == allowed
