"""How fast the chips of a local cloud compute: measured by a program of its own."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import IO, Any

from tpuctl.errors import PreconditionError, TransientError, UsageError, class_by_exit_code
from tpuctl.operations.local.local_cloud import PROGRAM

BenchRow = Mapping[str, Any]
_HINTS: Mapping[int, str] = MappingProxyType(
    {
        UsageError.exit_code: "run: tpuctl catalog types",
        PreconditionError.exit_code: "unset that variable: the fastest that is there is taken",
        TransientError.exit_code: "run it again; nothing of it goes on",
    }
)


@contextmanager
def bench_rows(accelerator_type: str, limit_s: float) -> Iterator[Iterator[BenchRow]]:
    """Run the benchmark during the block, and yield an iterator of its rows as they come.

    Each row has a `kind`; the first one is `about`.

    Every process ends with this. Reading raises UsageError for a type that is unknown or too large
    for this machine, TransientError when a worker is lost.
    """
    argv = [*PROGRAM, "bench", "--accelerator-type", accelerator_type, "--limit-s", str(limit_s)]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is ours alone, and what we end is all of it
            cwd="/",
            text=True,
        ) as process,
    ):
        try:
            yield _read(process, errors)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _read(process: "subprocess.Popen[str]", errors: IO[str]) -> Iterator[BenchRow]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)
    if status := process.wait():
        errors.seek(0)
        lines = [line.strip() for line in errors if line.strip()]
        if status < 0:  # not by itself: whatever it said last, that was not why
            lines, status = [f"killed by {signal.Signals(-status).name}"], TransientError.exit_code
        message = lines[-1].removeprefix("error: ") if lines else f"it ended with status {status}"
        raise class_by_exit_code(status)(message, hint=_HINTS.get(status))
