"""Writes the body of an answer to an inference request: JSON, and binary data behind it."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import NamedTuple

from tpuctl.serving.datatypes import Array, Batch, datatype_of
from tpuctl.serving.protocol.infer_request import InferRequest, RequestedOutput
from tpuctl.serving.protocol.protocol_error import ProtocolError, bad_request, short_text
from tpuctl.serving.protocol.tensor_values import PIECE_VALUES, binary_values, json_values

_encode = json.JSONEncoder(separators=(",", ":")).encode


class InferResponse(NamedTuple):
    """A body, and how much of it is JSON; None when there is no binary data."""

    body: bytes
    json_bytes: int | None


class ResponseEncoder:
    """Encodes the answers of one version of a model."""

    def __init__(self, model: str, version: str) -> None:
        """Write the beginning that all answers share."""
        self._start = f'{{"model_name":{_encode(model)},"model_version":{_encode(version)},'

    def encode(self, request: InferRequest, outputs: Batch) -> InferResponse:
        """The answer with the outputs that the request asks for; raises ProtocolError."""
        wanted = request.outputs or [RequestedOutput(name, request.is_binary) for name in outputs]
        parts: list[bytes] = []
        texts = [_output_text(output, outputs, parts) for output in wanted]
        mark = f'"id":{_encode(request.id)},' if request.id else ""
        text = f'{self._start}{mark}"outputs":[{",".join(texts)}]}}'.encode()
        if not parts:
            return InferResponse(text, None)
        return InferResponse(b"".join([text, *parts]), len(text))


def _output_text(wanted: RequestedOutput, outputs: Batch, parts: list[bytes]) -> str:
    """The JSON of an output; its binary data is added to `parts`."""
    name = wanted.name
    array = outputs.get(name)
    if array is None:
        raise bad_request(
            f"the model has no output {short_text(name)}; its outputs are: {', '.join(outputs)}"
        )
    datatype = datatype_of(array)
    if datatype is None:
        raise ProtocolError(500, f"output {name} is {array.dtype}, which the protocol cannot carry")
    start = _output_start(name, datatype, array.shape)
    if wanted.is_binary:
        parts.append(binary_values(name, datatype, array))
        return f'{start}"parameters":{{"binary_data_size":{len(parts[-1])}}}}}'
    return f'{start}"data":{_json_text(name, datatype, array)}}}'


@lru_cache(maxsize=256)
def _output_start(name: str, datatype: str, shape: tuple[int, ...]) -> str:
    return f'{{"name":{_encode(name)},"datatype":"{datatype}","shape":{list(shape)},'


def _json_text(name: str, datatype: str, array: Array) -> str:
    flat = array.reshape(-1)
    if flat.size <= PIECE_VALUES:
        return _piece_text(name, datatype, flat)
    pieces = (flat[at : at + PIECE_VALUES] for at in range(0, flat.size, PIECE_VALUES))
    return f"[{','.join([_piece_text(name, datatype, piece)[1:-1] for piece in pieces])}]"


def _piece_text(name: str, datatype: str, flat: Array) -> str:
    values = json_values(name, datatype, flat)
    if datatype in ("BYTES", "BOOL"):
        return _encode(values)
    text = str(values)  # numbers are written as JSON writes them, in half of the time
    if "n" in text:  # nan, inf
        raise ProtocolError(
            500, f"output {name} has NaN or infinity, which JSON cannot hold: ask for binary data"
        )
    return text
