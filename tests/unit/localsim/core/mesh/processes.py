"""Workers of a slice as real processes of this machine, on free ports."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[5]


def free_ports(count):
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]


def slice_environment(accelerator_type, worker_count, **extra):
    """What every worker of a new slice finds; TPU_WORKER_ID is added for each."""
    ports = free_ports(worker_count)
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TPU_ACCELERATOR_TYPE": accelerator_type,
        "TPU_PROCESS_ADDRESSES": ",".join(f"127.0.0.1:{port}" for port in ports),
        "TPUCTL_ATTEMPT": "1",
        **extra,
    }


def start(command, environment, worker_id, **options):
    return subprocess.Popen(
        [sys.executable, *command],
        env={**environment, "TPU_WORKER_ID": str(worker_id)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@contextmanager
def started(command, environment, worker_ids, **options):
    """The processes of these workers; what still runs at the end is killed."""
    workers = [start(command, environment, worker_id, **options) for worker_id in worker_ids]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
