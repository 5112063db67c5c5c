"""Values of a tensor: from JSON or from binary data to an array, and back."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from tpuctl.serving.datatypes import DTYPES, Array
from tpuctl.serving.protocol.protocol_error import ProtocolError, bad_request

_TYPES: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}
"""Kind of a dtype -> the types of what JSON may hold for it."""
_LENGTH = struct.Struct("<I")
PIECE_VALUES = 32 * 1024
"""So many values are converted at once, in some milliseconds; then other threads may run."""


def array_of_json(name: str, datatype: str, count: int, data: Any) -> Array:
    """The `count` values of a list, flat or nested, as a flat array; raises ProtocolError."""
    if type(data) is not list:
        raise bad_request(f"data of input {name} is not a list")
    if datatype == "BF16":
        raise bad_request(f"input {name} is BF16, which has no form in JSON: send binary data")
    values, types = _flattened(name, data)
    if len(values) != count:
        raise bad_request(f"input {name} has {len(values)} values; its shape needs {count}")
    if datatype == "BYTES":
        return _objects([_text(name, value) for value in values])
    dtype = DTYPES[datatype]
    if not types <= _TYPES[dtype.kind]:
        raise bad_request(f"data of input {name} has values that {datatype} does not hold")
    return _numbers(name, datatype, values)


def array_of_bytes(name: str, datatype: str, count: int, data: memoryview) -> Array:
    """The `count` values of binary data, little-endian, row-major; raises ProtocolError."""
    if datatype == "BYTES":
        return _byte_strings(name, count, data)
    size = 2 if datatype == "BF16" else DTYPES[datatype].itemsize
    if len(data) != size * count:
        raise bad_request(
            f"input {name} has {len(data)} bytes of binary data; its shape needs {size * count}"
        )
    if datatype == "BF16":
        return _widened(np.frombuffer(data, "<u2"))
    if datatype == "BOOL":
        return np.frombuffer(data, np.uint8).astype(np.bool_)
    return np.frombuffer(data, DTYPES[datatype])


def json_values(name: str, datatype: str, array: Array) -> list[Any]:
    """The values of an array, row-major, as JSON holds them; raises ProtocolError."""
    flat = array.reshape(-1)
    if datatype == "BF16":
        return list(flat.astype(np.float32).tolist())
    if datatype != "BYTES":
        return list(flat.tolist())
    try:
        return [_byte_string(name, value).decode() for value in flat]
    except UnicodeDecodeError as error:
        raise ProtocolError(
            500, f"output {name} has bytes that are not UTF-8: ask for binary data"
        ) from error


def binary_values(name: str, datatype: str, array: Array) -> bytes:
    """The values of an array as binary data, little-endian, row-major; raises ProtocolError."""
    if datatype == "BYTES":
        texts = [_byte_string(name, value) for value in array.reshape(-1)]
        return b"".join([_LENGTH.pack(len(text)) + text for text in texts])
    if datatype == "BF16":
        return array.view(np.uint16).astype("<u2").tobytes()
    return array.astype(DTYPES[datatype], copy=False).tobytes()


def _byte_string(name: str, value: Any) -> bytes:
    """A value of BYTES that the program returned: text in UTF-8, or bytes."""
    if isinstance(value, bytes):
        return value
    try:
        return bytes(value.encode())
    except (AttributeError, UnicodeEncodeError) as error:
        raise ProtocolError(500, f"output {name} has a value that is not text or bytes") from error


def _flattened(name: str, data: list[Any]) -> tuple[list[Any], set[type]]:
    """The values of a list, which may be nested, and their types."""
    types = _types(data)
    while list in types:
        if len(types) > 1:
            raise bad_request(f"data of input {name} has values beside lists")
        flat: list[Any] = []
        for piece in _pieces(data):
            flat.extend(chain.from_iterable(piece))
        data = flat
        types = _types(data)
    return data, types


def _types(values: list[Any]) -> set[type]:
    return {kind for piece in _pieces(values) for kind in set(map(type, piece))}


def _pieces(values: list[Any]) -> Iterator[list[Any]]:
    """A list in pieces, itself when it is short."""
    if len(values) <= PIECE_VALUES:
        yield values
        return
    for start in range(0, len(values), PIECE_VALUES):
        yield values[start : start + PIECE_VALUES]


def _numbers(name: str, datatype: str, values: list[Any]) -> Array:
    """Numbers of JSON in an array; what FP16 or FP32 cannot hold is infinity."""
    dtype = DTYPES[datatype]
    try:
        if dtype.kind in "iu" and values:
            limits = np.iinfo(dtype)
            for piece in _pieces(values):
                if min(piece) < limits.min or max(piece) > limits.max:
                    raise OverflowError  # as numpy 2 does, but not numpy 1
        with np.errstate(over="ignore"):
            arrays = [np.array(piece, dtype) for piece in _pieces(values)]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    except OverflowError as error:
        raise bad_request(f"data of input {name} is beyond the range of {datatype}") from error


def _widened(bits: Array) -> Array:
    """Float32 of the bits of bfloat16."""
    wide: Array = bits.astype("<u4") << np.uint32(16)
    return wide.view("<f4")


def _objects(values: list[bytes]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _text(name: str, value: Any) -> bytes:
    try:
        return bytes(value.encode())
    except (AttributeError, UnicodeEncodeError) as error:
        raise bad_request(f"data of input {name} has a value that is not text") from error


def _byte_strings(name: str, count: int, data: memoryview) -> Array:
    found: list[bytes] = []
    start = 0
    while start < len(data) and len(found) < count:
        if start + _LENGTH.size > len(data):
            break
        end = start + _LENGTH.size + _LENGTH.unpack_from(data, start)[0]
        if end > len(data):
            break
        found.append(bytes(data[start + _LENGTH.size : end]))
        start = end
    if start != len(data) or len(found) != count:
        raise bad_request(f"binary data of input {name} is not {count} values with their lengths")
    return _objects(found)
