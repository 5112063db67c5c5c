"""The commands of `notify` that somebody on this machine submitted: a supervisor runs no others.

A record lies in the bucket, where others may write: what it names is run only when this file, which
never leaves the machine, has the digest of that job and that command.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tpuctl.config import write_private
from tpuctl.jobs.local.supervisor_lock import state_file
from tpuctl.jobs.record import decoding
from tpuctl.jobs.record.decoding import MalformedError

SCHEMA = 1
MOST_KEPT = 1000
FILE = "notify-commands"


def allow(home: Path, context: str, owner_id: str, commands: Iterable[Sequence[str]]) -> None:
    """Allow the commands of a job, or of a service as `service/NAME`. Raises LocalIOError."""
    new = [_digest(owner_id, command) for command in commands]
    if not new:
        return
    known = [each for each in _load(home, context) if each not in new]
    document = {"schema": SCHEMA, "digests": [*known, *new][-MOST_KEPT:]}
    write_private(state_file(home, context, FILE), json.dumps(document).encode())


def is_allowed(home: Path, context: str, owner_id: str, command: Sequence[str]) -> bool:
    """Whether somebody on this machine submitted the job with that command."""
    return _digest(owner_id, command) in _load(home, context)


def _digest(owner_id: str, command: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps([owner_id, *command]).encode()).hexdigest()


def _load(home: Path, context: str) -> list[str]:
    try:
        document = decoding.parse_document(state_file(home, context, FILE).read_bytes())
        return [str(each) for each in document.get("digests", ())]
    except (OSError, MalformedError, TypeError):
        return []
