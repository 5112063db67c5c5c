"""The startup script of a worker: what the guest agent of a TPU VM does with it at every boot.

It runs as a shell would run it, on the worker and with the worker; nothing waits for it, and how
it ends is written to its log and nowhere else.
"""

import os
import shlex
import sys
import traceback

from localsim.workers.worker import Worker, WorkerStoppedError

KEY = "startup-script"
USER = "root"
_REPORTED = (
    "echo 'Found startup-script in metadata.'; if {0}; then echo 'startup-script exit status 0'; "
    'else echo "Script \\"startup-script\\" failed with error: exit status $?"; fi'
)
_LEADING_SPACE = " \n\v\f\t\r"
"""The guest agent cuts it off, so a script may begin with a line break before its `#!`."""


async def start(worker: Worker) -> None:
    """Start the script that the worker's metadata holds, if any; a failure is no one's failure."""
    script = worker.attribute(KEY).lstrip(_LEADING_SPACE)
    if not script:
        return
    try:
        await _start(worker, script)
    except (OSError, WorkerStoppedError):
        traceback.print_exc(file=sys.stderr)


async def _start(worker: Worker, script: str) -> None:
    path = worker.disk.put_startup_script(script.encode(errors="replace"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        log = worker.disk.open_startup_log()
        try:
            await worker.start(
                _REPORTED.format(shlex.quote(str(path))),
                user=USER,
                environment={},
                streams=(nothing, log, log),
            )
        finally:
            os.close(log)
    finally:
        os.close(nothing)
