"""Where the workers of the batch soak are born: a process that has loaded all they need.

Reads an environment a line as JSON, with the directory to run in as `PWD`, and answers with the
process id of a worker; `{"ended": PID}` answers whether it has ended, and how.
"""

import importlib
import json
import os
import pkgutil
import signal
import sys
import traceback
from typing import Any

import google.cloud.storage  # noqa: F401 (takes a second, once)
import requests.adapters  # noqa: F401

import tpuctl.serving.batch
import tpuctl.serving.batch.formats
import tpuctl.store
import tpuctl.store.gcs
from tpuctl.serving.batch.worker_program import main as run_worker


def main() -> None:
    for package in (tpuctl.store, tpuctl.store.gcs, tpuctl.serving.batch.formats):
        for module in pkgutil.iter_modules(package.__path__):
            if module.name != "parquet_files":
                importlib.import_module(f"{package.__name__}.{module.name}")
    for line in sys.stdin:
        command = json.loads(line)
        answer = ended(command["ended"]) if "ended" in command else start(command)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


def start(environment: dict[str, str]) -> int:
    """A worker of its own; its lines go to `worker.log` of its directory."""
    pid = os.fork()
    if pid:
        return pid
    os.chdir(environment["PWD"])
    log = os.open("worker.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(environment)
    sys.path.insert(0, environment["PWD"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        os._exit(run_worker())
    except BaseException:  # noqa: BLE001 (nobody else tells of it)
        traceback.print_exc()
    os._exit(1)


def ended(pid: int) -> Any:
    """None while it runs, else its status or the negative number of a signal."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    main()
