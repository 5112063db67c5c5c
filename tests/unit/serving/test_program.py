"""The user's module: what is loaded of it, and what is said of one that does not fit."""

import sys

import ml_dtypes
import numpy as np
import pytest

from tpuctl.errors import JobFailedError, NoCheckpointError, TpuctlError, UsageError
from tpuctl.serving.datatypes import datatype_of
from tpuctl.serving.program import ModelProgram, TensorSpec, load_program, tensor_specs

GOOD = """
import doubling_part
INPUTS = {"x": ("FP32", [-1, 2])}
def load(checkpoint):
    return doubling_part.FACTOR
def predict(model, batch):
    return {"y": batch["x"] * model}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module, `model.py` unless named, beside one that it can import; returns its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (tmp_path / "doubling_part.py").write_text("FACTOR = 2\n", "utf-8")

    def file_of(text, name="model.py"):
        (tmp_path / name).write_text(text, "utf-8")
        return str(tmp_path / name)

    return file_of


@pytest.mark.parametrize("by_name", [True, False])
def test_a_module_is_loaded_by_name_and_by_path(write, by_name):
    path = write(GOOD, "served_model.py")
    program = load_program("served_model" if by_name else path)
    assert program.name == "served_model"
    assert program.inputs == {"x": TensorSpec("FP32", (-1, 2))}
    model = program.load_model(None)
    batch = {"x": np.ones((3, 2), np.float32)}
    assert program.predict_batch(model, batch)["y"].tolist() == [[2, 2]] * 3


def test_what_is_wrong_with_a_module_is_said_in_one_line(write):
    predict = "def predict(m, b): pass"
    cases = {
        "x = (": (JobFailedError, "SyntaxError"),
        "import no_such_thing": (JobFailedError, "'no_such_thing' (model.py, line 1)"),
        "1 / 0": (JobFailedError, "ZeroDivisionError: division by zero (model.py, line 1)"),
        predict: (UsageError, "has no function load"),
        "def load(c): pass": (UsageError, "has no function predict"),
        f"def load(): pass\n{predict}": (UsageError, "load of module .* does not take 1"),
        "def load(c): pass\ndef predict(b): pass": (UsageError, "does not take 2 arguments"),
        f"INPUTS = 3\ndef load(c): pass\n{predict}": (UsageError, "INPUTS is not a dict"),
    }  # fmt: skip
    wrong = []
    for number, (text, (kind, message)) in enumerate(cases.items()):
        path = write(text, f"model{number}.py")
        try:
            load_program(path)
            wrong.append(text)
        except TpuctlError as error:
            expected = message.replace("model.py", f"model{number}.py")
            pattern = pytest.raises(kind, match=expected.replace("(", r"\(").replace(")", r"\)"))
            with pattern:
                raise error
    assert wrong == []


def test_a_module_that_is_not_there(write):
    for name in ("no_model", "no/model.py", "no_package.model"):
        with pytest.raises(UsageError, match="there is no"):
            load_program(name)


def test_declarations_of_another_form():
    wrong = {
        "a": "FP32", "b": ("FP32", 3), "c": ("float", [-1]), "d": ("FP32", []),
        "e": ("FP32", [4]), "f": ("FP32", [-1, -2]),
    }  # fmt: skip
    for name, declared in wrong.items():
        with pytest.raises(UsageError, match=rf"INPUTS\['{name}'\]"):
            tensor_specs({name: declared}, "INPUTS")


def failing(error):
    def function(*_):
        raise error

    return function


def test_a_program_that_fails_is_named_and_a_checkpoint_that_fails_stays_what_it_is():
    program = ModelProgram("m", failing(ValueError("bad\nfile")), failing(KeyError("w")))
    with pytest.raises(JobFailedError, match=r"^load of m fails: ValueError: bad file \(test_prog"):
        program.load_model(None)
    with pytest.raises(JobFailedError, match="^predict of m fails: KeyError: 'w'"):
        program.predict_batch(None, {"x": np.ones(1)})
    missing = ModelProgram("m", failing(NoCheckpointError("none")), failing(KeyError()))
    with pytest.raises(NoCheckpointError):
        missing.load_model(None)


def test_predict_returns_a_dict_with_a_row_for_each_row():
    batch = {"x": np.ones((3, 2))}
    for returned in (None, {}, [1, 2, 3], {"y": 3}, {"y": np.ones(2)}):
        program = ModelProgram("m", load=lambda _: None, predict=lambda *_, r=returned: r)
        with pytest.raises(JobFailedError, match="predict of m returns"):
            program.predict_batch(None, batch)


def test_datatypes_of_arrays():
    kinds = {
        "FP32": np.float32, "FP16": np.float16, "INT64": np.int64, "BOOL": bool, "UINT8": np.uint8,
        "BYTES": object, "BF16": ml_dtypes.bfloat16, None: complex,
    }  # fmt: skip
    assert {name: datatype_of(np.zeros(1, dtype)) for name, dtype in kinds.items()} == {
        name: name for name in kinds
    }
    assert datatype_of(np.array(["a"])) == datatype_of(np.array([b"a"])) == "BYTES"
    assert datatype_of(np.zeros(1, ">f4")) == "FP32"
