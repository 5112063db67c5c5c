"""What is typed of a function, and what is read of its trace."""

import pytest

from tpuctl.errors import UsageError
from tpuctl.operations.planning.tracing import traced_program
from tpuctl.operations.planning.tracing.traced_program import (
    TraceRequest,
    operation_of,
    parse_shapes,
    trace_function,
)
from tpuctl.perfmodel.workload.program.convolution import Convolution


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("f32[8,128]", [("float32", (8, 128))]),
        ("bf16[8, 128], s32[]", [("bfloat16", (8, 128)), ("int32", ())]),
        ("f8e4m3fn[4] pred[2]  uint4[6]", [("float8_e4m3fn", (4,)), ("bool", (2,)),
                                            ("uint4", (6,))]),
        ("", []),
    ],
)  # fmt: skip
def test_shapes_of_arguments(text, shapes):
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize("text", ["f32", "[8]", "f32[8", "f32[8,]x", "f32[-1]", "f32[8]]", "8,128"])
def test_what_is_not_a_shape(text):
    with pytest.raises(
        UsageError, match="does not begin with a type and its sides|--args"
    ) as error:
        parse_shapes(text)
    assert error.value.hint == "write them as --args 'f32[8,128] i32[8]'; a number is f32[]"


@pytest.mark.parametrize("target", ["train", "train.py", "train:", ":step", "a:b-c", "a:b c"])
def test_what_does_not_name_a_function(target):
    with pytest.raises(UsageError, match="does not name a function") as error:
        trace_function(TraceRequest(target), {})
    assert error.value.hint == "write it as module:function or path/file.py:function"


def test_an_operation_comes_back_from_its_fields():
    shape = {"images": 8, "image": [28, 28], "channels": 64, "filters": 32, "kernel": [3, 3],
             "padding": [[1, 1], [1, 1]]}  # fmt: skip
    operation = operation_of({"kind": "convolution", "count": 3.0, "convolution": shape})
    assert operation.convolution == Convolution(
        8, (28, 28), 64, 32, (3, 3), padding=((1, 1), (1, 1))
    )
    assert operation.matmul_flops == 3 * 2 * 8 * 28 * 28 * 64 * 9 * 32
    assert operation_of({"kind": "matmul", "sides": [2, 3, 4], "count": 1}).sides == (2, 3, 4)


def test_short_names_of_types_are_types_of_numpy_or_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    import numpy as np

    names = set(traced_program.TYPES.values())
    assert [name for name in names if not (hasattr(ml_dtypes, name) or name in np.sctypeDict)] == []
