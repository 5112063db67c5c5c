"""A JAX function's operations, read from a process of its own that traces it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tpuctl.errors import PreconditionError, UsageError
from tpuctl.models.duration import age
from tpuctl.perfmodel.workload.program import ProgramOperation
from tpuctl.perfmodel.workload.program.convolution import Convolution

CHILD = "tpuctl.operations.planning.tracing.jax_trace"
DEADLINE_S = 120.0
INSTALL = "run: pip install 'tpuctl[jax]'"
_LAST_BYTES = 4096
_SHOWN = 120

TYPES: Mapping[str, str] = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "i4": "int4",
    "s64": "int64", "s32": "int32", "s16": "int16", "s8": "int8", "s4": "int4",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "pred": "bool",
}  # fmt: skip
"""Types as JAX and XLA write them for short; a long name is taken as it is."""

_SHAPE = re.compile(r"\s*([a-z][a-z0-9_]*)\[([0-9,\s]*)\]\s*,?")

Shape = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class TracedProgram:
    """What one device computes and holds when a function runs once.

    `devices` are those of the mesh that the function names, 1 without one. `peak_bytes` is an upper
    bound for the order in which the program is written: nothing is fused, nothing donated.
    """

    target: str
    operations: tuple[ProgramOperation, ...]
    devices: int
    mesh: Mapping[str, int]
    arguments: tuple[str, ...]
    argument_bytes: float
    result_bytes: float
    peak_bytes: float
    notes: tuple[str, ...]
    jax: str

    @property
    def matmul_flops(self) -> float:
        """Operations of the MXU of one device, two for a multiply-add."""
        return sum(each.matmul_flops for each in self.operations)


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """A function as `module:name` or `file.py:name`, and how it is traced.

    `shapes` is the text of `--args`; without it the function is called and returns the function to
    trace and its arguments. JAX sees `devices` devices of the CPU, which a mesh may be made of.
    """

    target: str
    shapes: str | None = None
    devices: int = 1
    deadline_s: float = DEADLINE_S


def parse_shapes(text: str) -> list[Shape]:
    """Types and sides of `f32[8,128] i32[8]`, with blanks or commas between. Raises UsageError."""
    shapes: list[Shape] = []
    place = 0
    while text[place:].strip():
        matched = _SHAPE.match(text, place)
        if matched is None:
            raise _shape_error(text[place:].strip())
        dtype, sides = matched.groups()
        shapes.append((TYPES.get(dtype, dtype), _sides(sides)))
        place = matched.end()
    return shapes


def trace_function(
    request: TraceRequest, environ: Mapping[str, str], python: str = sys.executable
) -> TracedProgram:
    """Trace a function in a process of its own, which ends with the deadline.

    Raises UsageError for a function that is not there or does not trace, and PreconditionError
    where JAX is not installed.
    """
    _check_target(request.target)
    shapes = None if request.shapes is None else parse_shapes(request.shapes)
    with TemporaryDirectory(prefix="tpuctl-trace-") as folder:
        asked, answered, printed = (Path(folder, name) for name in ("asked", "answer", "output"))
        document = {"target": request.target, "shapes": shapes}
        asked.write_text(json.dumps(document), encoding="utf-8")
        argv = [python, "-P", "-m", CHILD, str(asked), str(answered)]
        with printed.open("wb") as output:
            status = _run(argv, _environment(request, environ), output.fileno(), request)
        answer = _read(answered)
        if answer is None:
            raise UsageError(_end_text(request.target, status, printed))
    return _program(request.target, answer)


def _check_target(target: str) -> None:
    place, colon, name = target.rpartition(":")
    if not (colon and place and all(part.isidentifier() for part in name.split("."))):
        raise UsageError(
            f"{target!r} does not name a function",
            hint="write it as module:function or path/file.py:function",
        )


def _environment(request: TraceRequest, environ: Mapping[str, str]) -> dict[str, str]:
    """What the process sees: shapes need no TPU, and none is taken from a program that runs."""
    ours = {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(request.devices),
        "JAX_TRACEBACK_FILTERING": "off",
    }
    return {**environ, **ours}


def _run(
    argv: Sequence[str], environ: Mapping[str, str], output: int, request: TraceRequest
) -> int:
    """The exit status of a process in a session of its own; all of it is ended afterwards."""
    process = subprocess.Popen(
        argv,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        return process.wait(request.deadline_s)
    except subprocess.TimeoutExpired:
        text = f"{request.target} is not traced after {age(request.deadline_s)}"
        raise UsageError(text, hint="give it longer: --trace-timeout 10m") from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(path: Path) -> dict[str, Any] | None:
    """The answer, if the process came to one."""
    try:
        answer: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return answer


def _end_text(target: str, status: int, printed: Path) -> str:
    """How a process ended that has no answer, with the last that it printed."""
    end = f"ended with exit status {status}"
    if status < 0:
        end = f"was ended by {signal.Signals(-status).name}"
    with printed.open("rb") as output:
        output.seek(max(0, printed.stat().st_size - _LAST_BYTES))
        lines = output.read().decode("utf-8", "replace").strip().splitlines()
    last = f": {lines[-1].strip()[:_SHOWN]}" if lines else ""
    return f"{target}: the program {end} before it was traced{last}"


def _program(target: str, answer: Mapping[str, Any]) -> TracedProgram:
    """The program of an answer. Raises UsageError, PreconditionError for an error in it."""
    if "missing" in answer:
        raise PreconditionError(f"{target}: JAX is not installed beside tpuctl", hint=INSTALL)
    if "refused" in answer:
        raise UsageError(answer["refused"], hint=answer["hint"] or None)
    if "error" in answer:
        place = f" ({answer['place']})" if answer["place"] else ""
        raise UsageError(f"{target} does not trace: {answer['error']}{place}")
    return TracedProgram(
        target=target,
        operations=tuple(map(operation_of, answer["operations"])),
        arguments=tuple(answer["arguments"]),
        notes=tuple(answer["notes"]),
        **{name: answer[name] for name in _PLAIN},
    )


_PLAIN = ("devices", "mesh", "argument_bytes", "result_bytes", "peak_bytes", "jax")


def operation_of(fields: Mapping[str, Any]) -> ProgramOperation:
    """An operation from its fields in JSON."""
    plain = dict(fields)
    if "sides" in plain:
        plain["sides"] = tuple(plain["sides"])
    if shape := plain.pop("convolution", None):
        plain["convolution"] = Convolution(**{name: _frozen(each) for name, each in shape.items()})
    return ProgramOperation(**plain)


def _frozen(value: Any) -> Any:
    """Lists as tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


MOST_DIGITS = 12
"""Of a side of an argument: more than any memory holds."""


def _sides(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if parts == [""]:
        return ()
    if not all(part.isdecimal() for part in parts):
        raise _shape_error(f"[{text}]")
    if any(len(part) > MOST_DIGITS for part in parts):
        raise UsageError(f"--args: a side has at most {MOST_DIGITS} digits", hint="make it smaller")
    return tuple(map(int, parts))


def _shape_error(text: str) -> UsageError:
    return UsageError(
        f"--args: {text!r} does not begin with a type and its sides",
        hint="write them as --args 'f32[8,128] i32[8]'; a number is f32[]",
    )
