"""A program of its own: traces a JAX function and writes its operations as JSON.

`python3 -P -m tpuctl.operations.planning.tracing.jax_trace REQUEST RESULT` reads a file of JSON and
writes one. What the function imports, prints or breaks stays in this process. The function is
traced with abstract values (`jax.make_jaxpr`); it is neither compiled nor run.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tpuctl.operations.planning.tracing.device_share import (
    Program,
    arguments_of,
    array,
    mesh_sizes,
    outside_work,
    side_ways,
)
from tpuctl.operations.planning.tracing.jaxpr_walk import walk_scope
from tpuctl.operations.planning.tracing.kernels import Scope, distinct, merged
from tpuctl.operations.planning.tracing.named_function import TraceError, program_of

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""What Python adds to a function or object that it shows."""


def trace(request: Mapping[str, Any]) -> dict[str, Any]:
    """The operations and sizes of the function that a request names."""
    if importlib.util.find_spec("jax") is None:
        return {"missing": "jax"}
    function, *arguments = program_of(request["target"], request["shapes"])
    jax = importlib.import_module("jax")
    closed = jax.make_jaxpr(function)(*arguments)
    sizes = mesh_sizes(closed.jaxpr)
    program = Program(devices=math.prod(sizes.values()))
    program.share = float(program.devices)
    is_told = any(side_ways(variable.aval) for variable in closed.jaxpr.invars)
    if program.devices > 1 and not is_told and outside_work(closed.jaxpr):
        program.note(
            "outside of shard_map the work is cut evenly over the mesh, and what XLA exchanges "
            "there is not counted"
        )
    entering = arguments_of(program, closed.jaxpr)
    results, held = walk_scope(program, closed.jaxpr, entering, Scope(1))
    # Captured arrays are held too: walk gives them no producer.
    captured = sum(array(program, variable.aval).size_bytes for variable in closed.jaxpr.constvars)
    argument_bytes = captured + sum(value.size_bytes for value in entering)
    return {
        "jax": jax.__version__,
        "devices": program.devices,
        "mesh": sizes,
        "arguments": [str(variable.aval) for variable in closed.jaxpr.invars[:100]],
        "argument_bytes": argument_bytes,
        "result_bytes": sum(value.size_bytes for value in distinct(results)),
        "peak_bytes": argument_bytes + held,
        "notes": list(program.notes),
        "operations": merged(program.operations),
    }


def report(path: str) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """What to do with an error that nobody caught: write its line as the result."""

    def write(kind: type[BaseException], error: BaseException, stack: TracebackType | None) -> None:
        lines = str(error).strip().splitlines() or [""]
        text = ADDRESS.sub("", lines[0].strip())
        answer = {"error": f"{kind.__name__}: {text}", "place": place_of(stack)}
        if isinstance(error, TraceError):
            answer = {"refused": str(error), "hint": error.hint}
        Path(path).write_text(json.dumps(answer), encoding="utf-8")

    return write


def place_of(stack: TracebackType | None) -> str:
    """File and line of the person's own code that was the last on the way to an error."""
    frames = traceback.extract_tb(stack)
    own = [f for f in frames if "site-packages" not in f.filename and f.filename != __file__]
    real = [f for f in own if not f.filename.startswith("<")]
    return f"{os.path.relpath(real[-1].filename)}:{real[-1].lineno}" if real else ""


def end_with_parent() -> None:
    """Let the kernel end this process when the command that started it is killed (prctl(2))."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def main() -> None:
    """Trace what a request names, and write the result."""
    end_with_parent()
    request_path, result_path = sys.argv[1:]
    sys.excepthook = report(result_path)
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = [sys.argv[0]]
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    answer = trace(request)
    Path(result_path).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
