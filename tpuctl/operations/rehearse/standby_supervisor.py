"""A supervisor that is ready before its cloud is: `python -m … HOME`, then a line on stdin.

It looks after every job of the local context of HOME, and ends when its stdin does: no run leaves a
supervisor behind, however it ends.
"""

import asyncio
import os
import sys
import threading
from pathlib import Path

import tpuctl.api.ssh.worker_connections  # noqa: F401 (what logs in takes a while to load)
from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.operations.jobs.supervise import parse_owners, supervise_owners
from tpuctl.operations.local import local_cloud
from tpuctl.operations.rehearse.run_clients import RunClients


def main(home: Path) -> None:
    """Wait for the line, then supervise until stdin ends."""
    if not sys.stdin.readline():
        return
    line = local_cloud.endpoint_line(home, DEFAULT_CONTEXT)
    if line is None:
        return
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    clients = RunClients(home, local_cloud.context_of(line), os.environ)
    asyncio.run(_supervise(clients))


async def _supervise(clients: RunClients) -> None:
    await supervise_owners(clients, parse_owners(None), _say, stay=True)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _end_with_stdin() -> None:
    while sys.stdin.readline():
        pass
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
