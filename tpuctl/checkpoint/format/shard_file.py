"""The safetensors file of a worker: header, then tensors, as views of memory, never joined."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuctl.checkpoint.arrays.boxes import Box, whole_box
from tpuctl.checkpoint.arrays.dtypes import DTYPES, size_bytes
from tpuctl.checkpoint.format import layout
from tpuctl.errors import IntegrityError

LENGTH_BYTES = 8
_ALIGNMENT = 8
METADATA = "__metadata__"
"""The one name in a header that is not a tensor's."""
SAVE_ID = re.compile(r"[0-9a-f]{32}")
"""128 random bits: no two saves have the same."""


@dataclass(frozen=True)
class ShardTensor:
    """A tensor of a file: a box of a leaf."""

    name: str
    dtype: str
    box: Box

    @property
    def size_bytes(self) -> int:
        """The bytes of its elements as stored."""
        return size_bytes(self.dtype, self.box.size)


def tensor_name(path: str, shape: tuple[int, ...], box: Box) -> str:
    """The path of the leaf and, where the box is a part of it, the box: `w[0:128,64:128]`."""
    name = path.replace("[", "~2")
    if box == whole_box(shape):
        return f"~{name}" if name == METADATA else name
    ranges = (f"{start}:{start + n}" for start, n in zip(box.offset, box.shape, strict=True))
    return f"{name}[{','.join(ranges)}]"


def description(tensors: Sequence[ShardTensor]) -> dict[str, Any]:
    """The entries of a header for tensors that follow one another."""
    described, start = {}, 0
    for tensor in tensors:
        stored = DTYPES[tensor.dtype].safetensors
        end = start + tensor.size_bytes
        described[tensor.name] = {
            # Bytes of a kind that safetensors cannot name have one axis.
            "dtype": stored or "U8",
            "shape": list(tensor.box.shape) if stored else [end - start],
            "data_offsets": [start, end],
        }
        start = end
    return described


def identity(save: str, key: str) -> dict[str, str]:
    """The metadata of a file: to which save, step, run and worker it belongs, and its name."""
    name = layout.parse_key(key)
    if name is None:
        raise ValueError(f"{key!r} is not the name of a file")
    return {
        "save": save,
        "step": str(name.step),
        "run": str(name.fence),
        "worker": str(name.worker_id),
        "file": key.rpartition("/")[2],
    }


def identity_bytes(metadata: Mapping[str, str]) -> bytes:
    """The JSON with which the header of a file of that identity begins, right after its size."""
    return _json({METADATA: metadata})[:-1]


def header(tensors: Sequence[ShardTensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The first bytes of a file: the size of the JSON, then the JSON, padded to 8 bytes.

    The metadata comes first: who knows what it must be need not read all of the header.
    """
    first = {} if metadata is None else {METADATA: metadata}
    text = _json({**first, **description(tensors)})
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def header_size_bytes(data: bytes) -> int:
    """The length of a header with its length field, from the first bytes of the file."""
    return LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")


def read_header(data: bytes) -> dict[str, Any]:
    """The JSON of a header in `data`; IntegrityError when it is not a header of safetensors."""
    try:
        described = json.loads(data[LENGTH_BYTES:])
    except (ValueError, RecursionError) as error:
        raise IntegrityError("the header of the file cannot be read") from error
    if not isinstance(described, dict) or header_size_bytes(data) != len(data):
        raise IntegrityError("the header of the file is not valid")
    return described
