"""The startup scripts of a worker: what the guest agent of a TPU VM does with them at every boot.

The one in the metadata runs first, then the one whose address is there. They run as a shell would
run them, on the worker and with the worker; nothing waits for them, and how they end is written to
their log and nowhere else.
"""

import os
import shlex
import sys
import tempfile
import traceback
from pathlib import Path, PurePosixPath

from localsim.workers import startup_download
from localsim.workers.worker import Worker, WorkerStoppedError

KEY = "startup-script"
URL_KEY = "startup-script-url"
USER = "root"
LOG = "var/log/startup-script.log"
"""Beside the directory that root is at home in."""
_LEADING_SPACE = " \n\v\f\t\r"
"""The guest agent cuts it off, so a script may begin with a line break before its `#!`."""

# The script comes by stdin, since the worker's disk need not be within the simulator's reach.
_PREPARE = """\
mkdir -p {directory} && exec >>{log} 2>&1 || exit
scripts=$(mktemp -d "${{TMPDIR:-/tmp}}/metadata-scripts.XXXXXXXX") || exit
cat >"$scripts/startup-script"
chmod 700 "$scripts/startup-script"
exec </dev/null
"""
_RUN = """\
if "$scripts/{key}"; then echo '{key} exit status 0'
else echo "Script \\"{key}\\" failed with error: exit status $?"; fi
"""
_DOWNLOAD = """\
if python3 -I -S -c {source} {url} "$scripts/{key}"; then
{run}fi
"""


async def start_scripts(worker: Worker) -> None:
    """Start the scripts that the worker's metadata names, if any; no failure is anybody's."""
    script, url = worker.attribute(KEY).lstrip(_LEADING_SPACE), worker.attribute(URL_KEY).strip()
    if not script and not url:
        return
    try:
        await _start(worker, script, url)
    except (OSError, WorkerStoppedError):
        traceback.print_exc(file=sys.stderr)


async def _start(worker: Worker, script: str, url: str) -> None:
    log = PurePosixPath(worker.host.home(USER)).parent / LOG
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        with tempfile.TemporaryFile() as content:
            content.write(script.encode(errors="replace"))
            content.seek(0)
            await worker.start(
                _command(log, has_script=bool(script), url=url),
                user=USER,
                environment={},
                streams=(content.fileno(), nothing, nothing),
            )
    finally:
        os.close(nothing)


def _command(log: PurePosixPath, *, has_script: bool, url: str) -> str:
    quoted = {"directory": shlex.quote(str(log.parent)), "log": shlex.quote(str(log))}
    parts = [_PREPARE.format(**quoted)]
    if has_script:
        parts += [_found(KEY), _RUN.format(key=KEY)]
    if url:
        source = shlex.quote(Path(startup_download.__file__).read_text("utf-8"))
        run = _RUN.format(key=URL_KEY)
        download = _DOWNLOAD.format(source=source, url=shlex.quote(url), key=URL_KEY, run=run)
        parts += [_found(URL_KEY), download]
    return "".join([*parts, 'rm -rf "$scripts"\n'])


def _found(key: str) -> str:
    return f"echo 'Found {key} in metadata.'\n"
