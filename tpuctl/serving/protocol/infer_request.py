"""Reads the body of an inference request: JSON, and binary data behind it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tpuctl.serving.datatypes import Array, Batch
from tpuctl.serving.program import TensorSpec
from tpuctl.serving.protocol.protocol_error import bad_request, short_text
from tpuctl.serving.protocol.tensor_values import array_of_bytes, array_of_json

_UNSUPPORTED = ("sequence_id", "sequence_start", "sequence_end")
_LARGEST_TIMEOUT_US = 3_600_000_000
LARGE_JSON_BYTES = 256 * 1024
"""A request with more JSON is read in a thread of its own: it takes 25 ms a MiB."""


class RequestedOutput(NamedTuple):
    """An output that a client asks for by name."""

    name: str
    is_binary: bool


@dataclass(frozen=True)
class RequestRules:
    """What a request must be like."""

    inputs: Mapping[str, TensorSpec]
    max_rows: int
    refuses_non_finite: bool = True
    """Whether NaN and infinity in an input are an error of the request."""


class InferRequest(NamedTuple):
    """A request that fits the model."""

    id: str
    inputs: Batch
    rows: int
    shapes: tuple[tuple[int, ...], ...]
    """Of a row of each input, in the order of the model's inputs: equal ones can share a batch."""
    outputs: tuple[RequestedOutput, ...]
    """None are named: all are wanted."""
    is_binary: bool
    """Whether all outputs are wanted as binary data, when none are named."""
    timeout_s: float | None


def decode_request(body: bytes, json_bytes: int | None, rules: RequestRules) -> InferRequest:
    """Read a body whose first `json_bytes` are JSON, all of it when None; raises ProtocolError."""
    if json_bytes is not None and json_bytes > len(body):
        raise bad_request(f"the header says {json_bytes} bytes of JSON; the body has {len(body)}")
    document = _parse(body if json_bytes is None else body[:json_bytes])
    binary = None if json_bytes is None else memoryview(body)[json_bytes:]
    inputs = _inputs(document.get("inputs"), binary, rules)
    ordered = {name: inputs[name] for name in rules.inputs}
    parameters = _parameters(document, "the request")
    return InferRequest(
        _id_of(document),
        ordered,
        _row_count(ordered, rules),
        tuple([array.shape[1:] for array in ordered.values()]),
        _requested_outputs(document.get("outputs")),
        parameters.get("binary_data_output") is True,
        _timeout_s(parameters),
    )


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _read_float(text: str) -> float:
    return float(text)


def _read_int(text: str) -> int:
    return int(text)


_parse_json = json.JSONDecoder(parse_constant=_refuse_constant).decode
_parse_large_json = json.JSONDecoder(
    parse_float=_read_float, parse_int=_read_int, parse_constant=_refuse_constant
).decode
"""Other threads run between two numbers: json by itself holds the interpreter to the end."""


def _parse(text: bytes) -> dict[str, Any]:
    parse = _parse_large_json if len(text) > LARGE_JSON_BYTES else _parse_json
    try:
        document = parse(text.decode())
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise bad_request(f"the request is not JSON: {reason[:200]}") from error
    if type(document) is not dict:
        raise bad_request("the request is not a JSON object")
    return document


def _id_of(document: Mapping[str, Any]) -> str:
    found = document.get("id", "")
    if type(found) is not str:
        raise bad_request("id of the request is not a string")
    return found


def _parameters(holder: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    found = holder.get("parameters")
    if found is None:
        return {}
    if type(found) is not dict:
        raise bad_request(f"parameters of {what} are not an object")
    for name in _UNSUPPORTED:
        if found.get(name):
            raise bad_request(f"parameter {name} is not supported: the model keeps no state")
    return found


def _timeout_s(parameters: Mapping[str, Any]) -> float | None:
    found = parameters.get("timeout")
    if found is None or found == 0:
        return None
    if type(found) is not int or not 0 < found <= _LARGEST_TIMEOUT_US:
        raise bad_request(f"timeout {short_text(found)} is not a number of microseconds")
    return found / 1e6


def _inputs(given: Any, binary: memoryview | None, rules: RequestRules) -> Batch:
    if type(given) is not list:
        raise bad_request("inputs of the request are not a list")
    found: Batch = {}
    start = 0
    for tensor in given:
        name, spec = _named_spec(tensor, rules.inputs)
        if name in found:
            raise bad_request(f"input {name} is there twice")
        size = _binary_size(tensor, name)
        if size is None:
            part = None
        else:
            part = _part(name, binary, start, size)
            start += size
        found[name] = _array(tensor, name, spec, part)
        if rules.refuses_non_finite:
            _check_finite(name, found[name])
    if binary is not None and start != len(binary):
        raise bad_request(f"the body has {len(binary) - start} bytes that belong to no input")
    if len(found) != len(rules.inputs):
        missing = [name for name in rules.inputs if name not in found]
        raise bad_request(f"the request has no input {', '.join(missing)}")
    return found


def _named_spec(tensor: Any, specs: Mapping[str, TensorSpec]) -> tuple[str, TensorSpec]:
    if type(tensor) is not dict:
        raise bad_request("an input of the request is not an object")
    name = tensor.get("name")
    spec = specs.get(name) if type(name) is str else None
    if spec is None or type(name) is not str:
        raise bad_request(
            f"the model has no input {short_text(name)}; its inputs are: {', '.join(specs)}"
        )
    if tensor.get("datatype") != spec.datatype:
        datatype = short_text(tensor.get("datatype"))
        raise bad_request(f"input {name} is {datatype}; the model takes {spec.datatype}")
    return name, spec


def _binary_size(tensor: Mapping[str, Any], name: str) -> int | None:
    """How many bytes of the binary data are the tensor's; None when its values are JSON."""
    if "parameters" not in tensor:
        return None
    parameters = _parameters(tensor, f"input {name}")
    if "shared_memory_region" in parameters:
        raise bad_request("shared memory is not supported: send the data with the request")
    size = parameters.get("binary_data_size")
    if size is None:
        return None
    if type(size) is not int or size < 0:
        raise bad_request(f"binary_data_size of input {name} is not a number of bytes")
    if "data" in tensor:
        raise bad_request(f"input {name} has both data and binary_data_size")
    return size


def _part(name: str, binary: memoryview | None, start: int, size: int) -> memoryview:
    if binary is None:
        raise bad_request(
            f"input {name} has binary data, but there is no header Inference-Header-Content-Length"
        )
    if start + size > len(binary):
        raise bad_request(f"input {name} has {size} bytes; the body has {len(binary) - start} left")
    return binary[start : start + size]


def _array(
    tensor: Mapping[str, Any], name: str, spec: TensorSpec, part: memoryview | None
) -> Array:
    shape = _shape(tensor.get("shape"), name, spec)
    count = math.prod(shape)
    if part is None:
        values = array_of_json(name, spec.datatype, count, tensor.get("data"))
    else:
        values = array_of_bytes(name, spec.datatype, count, part)
    return values.reshape(shape)


def _shape(given: Any, name: str, spec: TensorSpec) -> tuple[int, ...]:
    wanted = spec.shape
    if type(given) is list and len(given) == len(wanted):
        for size, limit in zip(given, wanted):  # noqa: B905 (they are of one length)
            if type(size) is not int or size < 0 or (limit not in (-1, size)):
                break
        else:
            return tuple(given)
    raise bad_request(
        f"input {name} has the shape {short_text(given)}; the model takes {list(wanted)}"
    )


def _row_count(inputs: Batch, rules: RequestRules) -> int:
    counts = [len(array) for array in inputs.values()]
    rows = counts[0]
    if counts.count(rows) != len(counts):
        found = dict(zip(inputs, counts))  # noqa: B905 (of one length)
        raise bad_request(f"the inputs have different numbers of rows: {found}")
    if not 1 <= rows <= rules.max_rows:
        raise bad_request(f"the request has {rows} rows; it may have 1 to {rules.max_rows}")
    return rows


def _check_finite(name: str, array: Array) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise bad_request(f"input {name} has NaN or infinity in row {row}")


def _requested_outputs(given: Any) -> tuple[RequestedOutput, ...]:
    if given is None:
        return ()
    if type(given) is not list:
        raise bad_request("outputs of the request are not a list")
    return tuple([_requested_output(output) for output in given])


def _requested_output(given: Any) -> RequestedOutput:
    if type(given) is not dict or type(given.get("name")) is not str:
        raise bad_request("an output of the request is not an object with a name")
    name = given["name"]
    parameters = _parameters(given, f"output {short_text(name)}")
    for unsupported in ("shared_memory_region", "classification"):
        if parameters.get(unsupported):
            raise bad_request(f"parameter {unsupported} of an output is not supported")
    return RequestedOutput(name, parameters.get("binary_data") is True)
