"""The `sftp` subsystem of a worker: a program on the worker, with what the worker can reach.

Where the worker's root is its own that is all. Where it shares this machine's file system, what
changes files is fenced in: a copy to a mistyped path must not land among the user's own files.
"""

import shlex
import sys
from pathlib import Path

from localsim.services.ssh import sftp_stdio
from localsim.workers.worker import Worker

SUBSYSTEM = "sftp"
_PACKAGES = Path(sftp_stdio.__file__).parents[3]
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from localsim.services.ssh.sftp_stdio import main; main(sys.argv[1:])"
)


def sftp_command(worker: Worker, user: str) -> str:
    """The command that a worker's shell runs to serve SFTP to a user."""
    # The interpreter without `site`: it starts in a third of the time.
    start = [sys.executable, "-I", "-S", "-c", _START, str(_PACKAGES)]
    disk = worker.disk
    is_shared = worker.host.home(user) == str(disk.home)
    fence = [str(disk.home), str(disk.temporary)] if is_shared else []
    return f"exec {shlex.join([*start, *fence])}"
