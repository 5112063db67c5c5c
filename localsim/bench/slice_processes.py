"""The workers of a slice as processes of this machine, for as long as somebody reads."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO

from localsim.bench.bench_error import TRANSIENT, BenchError
from tpuctl.catalog import AcceleratorType

LOOPBACK = "127.0.0.1"
ENDING_S = 10.0
TELLING_S = 12.0
"""Within ten seconds the workers know of one that is lost."""
_OF_WORKERS = ("TPU_", "TPUCTL_", "MEGASCALE_", "LOCALSIM_CHIPS", "GCE_METADATA_")
"""Variables that would tell a worker of another slice."""


def worker_output(kind: AcceleratorType, limit_s: float) -> Iterator[str]:
    """Yield the lines that worker 0 prints; all workers end with it. Raises BenchError."""
    environment = _environment(kind)
    with ExitStack() as ending:
        errors = ending.enter_context(tempfile.TemporaryFile("w+"))
        workers = [
            ending.enter_context(_started(environment, worker_id, limit_s, errors))
            for worker_id in range(kind.workers)
        ]
        first, failed = workers[0], list[int]()
        for worker_id, worker in enumerate(workers):
            watched = (worker_id, worker, first, failed)
            threading.Thread(target=_watch, args=watched, daemon=True).start()
        assert first.stdout is not None
        yield from first.stdout
        if first.wait(ENDING_S):
            raise BenchError(_last_line(errors) or f"worker {[*failed, 0][0]} ended", TRANSIENT)


def _watch(
    worker_id: int,
    worker: "subprocess.Popen[str]",
    first: "subprocess.Popen[str]",
    failed: list[int],
) -> None:
    """Once a worker failed, worker 0 has some seconds to say so; a stopped one never would."""
    if worker.wait():
        failed.append(worker_id)
        try:
            first.wait(TELLING_S)
        except subprocess.TimeoutExpired:
            first.kill()


@contextmanager
def _started(
    environment: Mapping[str, str], worker_id: int, limit_s: float, errors: IO[str]
) -> "Iterator[subprocess.Popen[str]]":
    """A worker; what of it still runs afterwards is killed."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "localsim.bench.slice_worker", str(limit_s)],
        env={**environment, "TPU_WORKER_ID": str(worker_id)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if worker_id == 0 else subprocess.DEVNULL,
        stderr=errors,  # all name the one that is lost
        text=True,
    )
    with worker:
        try:
            yield worker
        finally:
            worker.kill()


def _environment(kind: AcceleratorType) -> dict[str, str]:
    """What every worker of a slice on one machine finds; its number is added for each."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_OF_WORKERS)}
    return {
        **kept,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TPUCTL_ATTEMPT": uuid.uuid4().hex,  # nobody of another measurement can join
        "TPU_ACCELERATOR_TYPE": kind.name,
        "TPU_PROCESS_ADDRESSES": ",".join(f"{LOOPBACK}:{port}" for port in _ports(kind.workers)),
    }


def _ports(count: int) -> list[int]:
    """Free ones, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def _last_line(errors: IO[str]) -> str:
    errors.seek(0)
    return ["", *(line.strip() for line in errors if line.strip())][-1]
