"""A file's header: safetensors' own loader reads what is written."""

import json

import numpy as np
import pytest
import safetensors.numpy

from tpuctl.checkpoint.arrays.boxes import Box, whole_box
from tpuctl.checkpoint.format.shard_file import ShardTensor, header, read_header, tensor_name
from tpuctl.errors import IntegrityError


def tensor(name, array, dtype=None):
    return ShardTensor(name, dtype or array.dtype.name, whole_box(array.shape))


def test_safetensors_reads_it():
    arrays = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "flags": np.array([True, False, True]),
        "none": np.zeros((0, 4), np.int8),
        "number": np.array(7, np.int64),
    }
    data = header([tensor(name, array) for name, array in arrays.items()])
    data += b"".join(array.tobytes() for array in arrays.values())
    found = safetensors.numpy.load(data)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def test_what_safetensors_cannot_name_is_bytes():
    odd = ShardTensor("odd", "int4", whole_box((5,)))
    data = header([odd, ShardTensor("c", "complex64", whole_box((2,)))]) + b"abc" + bytes(16)
    found = safetensors.numpy.load(data)
    assert found["odd"].tobytes() == b"abc"
    assert (found["c"].dtype, found["c"].shape) == (np.uint8, (16,))


def test_names_of_any_language_come_back():
    name = 'größe/"w"\n/層'
    found = safetensors.numpy.load(header([tensor(name, np.zeros(1, np.int8))]) + b"\0")
    assert list(found) == [name]


def test_the_tensors_begin_at_a_multiple_of_eight_bytes():
    for length in range(1, 20):
        assert len(header([tensor("n" * length, np.zeros(3))])) % 8 == 0


@pytest.mark.parametrize(
    ("path", "shape", "box", "name"),
    [
        ("layers/0/w", (4, 2), Box((0, 0), (4, 2)), "layers/0/w"),
        ("layers/0/w", (4, 2), Box((2, 0), (2, 1)), "layers/0/w[2:4,0:1]"),
        (".", (), Box((), ()), "."),
        ("w[0:2]", (2,), Box((0,), (2,)), "w~20:2]"),
        ("__metadata__", (2,), Box((0,), (2,)), "~__metadata__"),
        ("__metadata__", (2,), Box((0,), (1,)), "__metadata__[0:1]"),
    ],
)
def test_a_tensor_is_named_by_its_path_and_box(path, shape, box, name):
    assert tensor_name(path, shape, box) == name


def test_a_header_is_read_back_or_refused():
    data = header([tensor("w", np.zeros(3, np.float32))])
    assert read_header(data)["w"] == {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
    for damaged in (data[:-1], data.replace(b"{", b"[", 1), len(data).to_bytes(8, "little")):
        with pytest.raises(IntegrityError):
            read_header(damaged)
    assert json.loads(data[8:]) == read_header(data)
