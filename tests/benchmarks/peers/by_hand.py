"""Workers started by hand, as JAX wants to be told of them: `by_hand.py WORKERS PROGRAM`."""

import os
import socket
import subprocess
import sys


def main(workers: str, program: str) -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "JAX_FORCE_TPU_INIT": "1",
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "4",
        "JAX_COORDINATOR_PORT": str(port),
        "TPU_WORKER_HOSTNAMES": ",".join(["127.0.0.1"] * int(workers)),
        "MEGASCALE_COORDINATOR_ADDRESS": "",
        "MEGASCALE_NUM_SLICES": "1",
        "MEGASCALE_SLICE_ID": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    argv = [sys.executable, program]
    started = [
        subprocess.Popen(argv, env={**environment, "TPU_WORKER_ID": str(worker)})
        for worker in range(int(workers))
    ]
    return max([process.wait() for process in started])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
