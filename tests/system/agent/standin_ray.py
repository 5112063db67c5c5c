"""Stands in for Ray's program on a worker: it records every command, and is a host until it ends.

    python standin_ray.py STATE ARGV...

STATE is a directory: `calls` has every argv, `version` what --version says, ADDRESS the processes
of a host. An address in `broken` does not start. A host writes a log, and starts a process that
stays, in a session of its own as Ray's workers may be.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def option(argv: list[str], name: str) -> str:
    return next(word.partition("=")[2] for word in argv if word.startswith(f"--{name}="))


def be_host(state: Path, argv: list[str]) -> int:
    address = option(argv, "node-ip-address")
    if (state / "broken").exists() and address in (state / "broken").read_text():
        sys.stdout.write("ValueError: no port is free\n")
        return 1
    logs = Path(option(argv, "temp-dir")) / "session_latest" / "logs"
    logs.mkdir(parents=True)
    (logs / "raylet.out").write_text(f"{address} knows {os.environ.get('HF')}\n")
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as staying:
        (state / address).write_text(f"{os.getpid()} {staying.pid}")
        sys.stdout.write("--------\nRay runtime started.\n--------\n")
        sys.stdout.flush()
        while True:
            time.sleep(60)


def main() -> int:
    state, argv = Path(sys.argv[1]), sys.argv[2:]
    with (state / "calls").open("a") as calls:
        calls.write(json.dumps(argv) + "\n")
    if argv == ["--version"]:
        sys.stdout.write(f"ray, version {(state / 'version').read_text()}\n")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
    return be_host(state, argv)


if __name__ == "__main__":
    sys.exit(main())
