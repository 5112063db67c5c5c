"""Checks a batch job before a slice is paid for: its program, checkpoint, inputs and output."""

import ast
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.errors import (
    ConflictError,
    NoCheckpointError,
    NotFoundError,
    UsageError,
)
from tpuctl.models.inference.predict_spec import PredictSpec
from tpuctl.models.job import JobSpec
from tpuctl.operations.jobs.events import JobNotice, JobRuntime, Noted
from tpuctl.store import Store

if TYPE_CHECKING:
    from tpuctl.serving.batch.formats.input_reader import InputObject

FUNCTIONS = {"load": "load(checkpoint)", "predict": "predict(model, batch)"}
SURVEYED_BYTES = 1024 * 1024
"""A larger file of text is read by the workers alone."""


def check_predict(runtime: JobRuntime, spec: JobSpec) -> Generator[JobNotice, None, JobSpec]:
    """Look at everything that the section `predict` names; returns the job with its step.

    Raises UsageError (the program, the inputs), NotFoundError (no input), ConflictError (the
    output), NoCheckpointError.
    """
    if spec.predict is None:
        return spec
    # They load numpy, which other jobs need not wait for.
    from tpuctl.serving.batch import input_objects

    predict = spec.predict
    input_objects.refuse_overlap(predict.input, predict.output)
    check_program(spec, predict)
    directory, pattern = input_objects.split_pattern(predict.input)
    inputs = runtime.store(directory)
    found = input_objects.list_inputs(inputs, pattern, predict.input)
    _check_files(inputs, found, predict)
    _check_output(runtime.store(predict.output), found, predict)
    predict = _with_step(runtime, predict)
    size_mb = sum(each.size_bytes for each in found) / 1e6
    step = "" if predict.step is None else f", step {predict.step} of {predict.checkpoint}"
    yield Noted(f"predicts {len(found)} objects of {size_mb:.1f} MB{step}")
    return replace(spec, predict=predict)


def check_program(spec: JobSpec, predict: PredictSpec) -> None:
    """Raise UsageError when the workdir lacks the program, or the program a function."""
    if predict.program is None or spec.workdir is None:
        if predict.program and spec.image is None and spec.setup is None:
            raise UsageError(
                f"predict.program {predict.program!r} is nowhere: the job has no workdir",
                hint="write workdir: . beside predict",
            )
        return
    path = Path(spec.workdir, *predict.program.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    if not file.is_file():
        if spec.setup is not None or spec.image is not None:
            return  # it may be installed there
        raise UsageError(
            f"there is no program {path.with_suffix('.py')}",
            hint="predict.program is the name of a module of the workdir: classify for classify.py",
        )
    _check_functions(file)


def _check_functions(file: Path) -> None:
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{file} is not a program of Python: {error}") from error
    names = {name for node in tree.body for name in _defined_names(node)}
    if "*" in names:
        return
    for name, signature in FUNCTIONS.items():
        if name not in names:
            raise UsageError(f"{file} has no function {name}", hint=f"define: def {signature}")


def _defined_names(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines; of one with a body, all below it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    below = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.FunctionDef))
    return [each.id if isinstance(each, ast.Name) else each.name for each in below]


def _check_files(inputs: Store, found: Sequence["InputObject"], predict: PredictSpec) -> None:
    """Raise UsageError when the first or last input cannot be read, or their columns differ."""
    from tpuctl.serving.batch.formats.known_formats import format_name
    from tpuctl.serving.batch.unit_plan import survey_inputs

    kind = format_name(found[0].key)
    looked = list({found[0].key: found[0], found[-1].key: found[-1]}.values())
    if kind in ("csv", "jsonl"):
        looked = [each for each in looked if each.size_bytes <= SURVEYED_BYTES]
    if looked and (kind != "parquet" or _has_pyarrow()):
        survey_inputs(inputs, looked, kind, predict.unit_rows)


def _has_pyarrow() -> bool:
    try:
        import pyarrow  # noqa: F401 (an extra: without it the workers look)
    except ImportError:
        return False
    return True


def _check_output(output: Store, found: Sequence["InputObject"], predict: PredictSpec) -> None:
    """Raise ConflictError when the output has objects that are not of this input."""
    from tpuctl.serving.batch.unit_plan import PLAN_KEY, decode_plan, refuse_used_output

    try:
        plan = decode_plan(output.get_range(PLAN_KEY), output.url)
    except NotFoundError:
        refuse_used_output(output)
        return
    if plan.input != predict.input or list(plan.inputs) != list(found):
        raise ConflictError(
            f"{output.url} has the predictions of other inputs: some were added or changed since",
            hint="choose another output",
        )


def _with_step(runtime: JobRuntime, predict: PredictSpec) -> PredictSpec:
    """The section with the step of its checkpoint that all attempts use."""
    if predict.checkpoint is None:
        return predict
    from tpuctl.checkpoint.read.step_history import RESTORABLE, read_history

    store = runtime.store(predict.checkpoint)
    history = read_history(store)
    if not history.steps and predict.step is None and next(iter(store.list()), None) is not None:
        return predict  # `load` reads it in a way of its own
    step = history.latest() if predict.step is None else history.find(predict.step)
    if step is None or step.state not in RESTORABLE or step.committed is None:
        number = "that can be restored" if predict.step is None else str(predict.step)
        raise NoCheckpointError(
            f"there is no step {number} under {store.url}",
            hint=f"run: tpuctl checkpoint list {store.url}",
        )
    return replace(predict, step=step.step, manifest=step.committed.crc32c)
