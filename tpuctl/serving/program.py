"""The user's module: `load(checkpoint) -> model` and `predict(model, batch) -> batch`.

    INPUTS = {"pixels": ("FP32", [-1, 64])}

    def load(checkpoint):
        return checkpoint.restore().tree["weights"]

    def predict(model, batch):
        return {"digit": (batch["pixels"] @ model["w"]).argmax(axis=1)}

The same module serves requests and predicts files. A batch is a dict of numpy arrays by name, whose
first axis counts the rows; `predict` returns one of as many rows, in their order.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpuctl.errors import JobFailedError, TpuctlError, UsageError
from tpuctl.serving.datatypes import DTYPES, Array, Batch

if TYPE_CHECKING:
    from tpuctl.checkpoint import Restored

INPUTS_HINT = 'declare for example: INPUTS = {"pixels": ("FP32", [-1, 64])}'


@dataclass
class ModelCheckpoint:
    """Where the model's arrays lie, as `load` gets it."""

    directory: str
    """A gs:// URL or a path: that of the steps of a Checkpointer, or anything that `load` reads."""
    step: int | None = None
    """The step to restore; None is the newest good one. After `restore`, the one that it was."""

    def restore(self, like: Any = None) -> Restored:
        """Restore the step, verified; `like` is that of `tpuctl.checkpoint.restore`."""
        from tpuctl.checkpoint import restore

        restored = restore(self.directory, self.step, like)
        self.step = restored.step
        return restored


class TensorSpec(NamedTuple):
    """The datatype of the Open Inference Protocol and the shape of a tensor; -1 is any size."""

    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelProgram:
    """The functions of the user's module, and the tensors that it declares."""

    name: str
    load: Callable[[ModelCheckpoint | None], Any]
    predict: Callable[[Any, Batch], Mapping[str, Any]]
    inputs: Mapping[str, TensorSpec] = field(default_factory=dict)
    """What INPUTS declares; empty where the module declares nothing."""
    outputs: Mapping[str, TensorSpec] = field(default_factory=dict)
    """What OUTPUTS declares; empty where the module declares nothing."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """What EXAMPLE holds: a row of each input, for the first calls of a server."""

    def load_model(self, checkpoint: ModelCheckpoint | None) -> Any:
        """The model of a checkpoint; raises JobFailedError when `load` fails."""
        try:
            return self.load(checkpoint)
        except TpuctlError:  # as of a step that cannot be restored
            raise
        except Exception as error:
            raise self._failure("load", error) from error

    def predict_batch(self, model: Any, batch: Batch) -> Batch:
        """What `predict` returns, as arrays of as many rows as the batch has.

        Raises JobFailedError when `predict` fails or returns anything else.
        """
        try:
            returned = self.predict(model, batch)
        except Exception as error:
            raise self._failure("predict", error) from error
        rows = len(next(iter(batch.values())))
        if not isinstance(returned, Mapping) or not returned:
            kind = "an empty dict" if returned == {} else type(returned).__name__
            raise JobFailedError(
                f"predict of {self.name} returns {kind}",
                hint="return a dict of arrays by name, with a row for each row of the batch",
            )
        return {str(name): self._checked(name, value, rows) for name, value in returned.items()}

    def _checked(self, name: str, value: Any, rows: int) -> Array:
        try:
            array = np.asarray(value)  # of JAX: waits for the chips
        except Exception as error:
            raise self._failure("predict", error) from error
        if array.ndim == 0 or len(array) != rows:
            shape = list(array.shape)
            raise JobFailedError(
                f"predict of {self.name} returns {name!r} of shape {shape} for {rows} rows",
                hint="the first axis of every array that predict returns counts the rows",
            )
        return array

    def _failure(self, function: str, error: Exception) -> JobFailedError:
        return JobFailedError(f"{function} of {self.name} fails: {describe_exception(error)}")


def load_program(module: str) -> ModelProgram:
    """Import a module by its name or by the path of its file, and check its functions.

    Modules beside the file, or in the working directory, can be imported by it. Raises UsageError
    when the module or a function is not there, JobFailedError when its import fails.
    """
    imported = _import_module(module)
    functions = {name: _function(imported, module, name) for name in ("load", "predict")}
    return ModelProgram(
        name=imported.__name__.rpartition(".")[2],
        inputs=tensor_specs(getattr(imported, "INPUTS", {}), "INPUTS"),
        outputs=tensor_specs(getattr(imported, "OUTPUTS", {}), "OUTPUTS"),
        example=getattr(imported, "EXAMPLE", {}),
        **functions,
    )


def tensor_specs(declared: Any, name: str) -> dict[str, TensorSpec]:
    """What INPUTS or OUTPUTS declares; raises UsageError when it is of another form."""
    if not isinstance(declared, Mapping):
        raise UsageError(f"{name} is not a dict", hint=INPUTS_HINT.replace("INPUTS", name))
    return {str(key): _tensor_spec(value, f"{name}[{key!r}]") for key, value in declared.items()}


def describe_exception(error: BaseException) -> str:
    """The type and the message of an exception in one line, and where the program raised it."""
    message = " ".join(str(error).split())
    if len(message) > 300:
        message = f"{message[:300]}…"
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is our own call
    place = f" ({Path(frames[0].filename).name}, line {frames[0].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{place}" if message else type(error).__name__ + place


def _import_module(module: str) -> ModuleType:
    is_path = module.endswith(".py") or "/" in module
    place = Path(module).resolve().parent if is_path else Path.cwd()
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))
    try:
        return _import_file(Path(module).resolve()) if is_path else importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise UsageError(
                f"there is no module {module!r} in {place}",
                hint="give the name of a module, or the path of its file: model.py",
            ) from error
        raise _import_failure(module, error) from error
    except UsageError:
        raise
    except Exception as error:
        raise _import_failure(module, error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}", hint="give the path or the name of a module with predict"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file", hint="its name ends with .py")
    imported = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = imported
    spec.loader.exec_module(imported)
    return imported


def _import_failure(module: str, error: Exception) -> JobFailedError:
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename[0] != "<"
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return JobFailedError(
        f"module {module!r} cannot be imported: {type(error).__name__}: {error}{place}"
    )


def _function(imported: ModuleType, module: str, name: str) -> Any:
    signature = {"load": "load(checkpoint)", "predict": "predict(model, batch)"}[name]
    function = getattr(imported, name, None)
    if not callable(function):
        raise UsageError(
            f"module {module!r} has no function {name}", hint=f"define: def {signature}"
        )
    given = [None] * (1 + signature.count(","))
    try:
        inspect.signature(function).bind(*given)
    except TypeError as error:
        raise UsageError(
            f"{name} of module {module!r} does not take {len(given)} arguments: {error}",
            hint=f"define: def {signature}",
        ) from error
    except ValueError:
        pass  # a function of C that does not say what it takes
    return function


def _tensor_spec(declared: Any, name: str) -> TensorSpec:
    try:
        datatype, shape = declared
        sizes = tuple(map(int, shape))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is not a datatype and a shape", hint=INPUTS_HINT) from error
    if datatype not in DTYPES:
        raise UsageError(
            f"{name} has the datatype {datatype!r}", hint=f"one of: {', '.join(DTYPES)}"
        )
    if not sizes or sizes[0] != -1 or any(size < -1 for size in sizes):
        raise UsageError(
            f"{name} has the shape {list(sizes)}: the first axis counts the rows, and is -1",
            hint=INPUTS_HINT,
        )
    return TensorSpec(datatype, sizes)
