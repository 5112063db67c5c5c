"""The names of a checkpoint's objects: schema 2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

SCHEMA = 2
LAST_STEP = 10**12 - 1
LAST_FENCE = 10**16 - 1

SHARD, DONE, COMMIT, BAD, PIN = "shard", "done", "commit", "bad", "pin"
VERIFIED = "verified"
RUN, ROLLBACK, TRY, ANSWER, STOP = "run", "rollback", "try", "answer", "stop"

_STEP = r"step_(?P<step>[0-9]{12})/"
_ATTEMPT = _STEP + r"a_(?P<fence>[0-9]{16})/"
_NUMBER = r"(?:0|[1-9][0-9]*)"
_PATTERNS = {
    SHARD: rf"{_ATTEMPT}shard_(?P<worker_id>{_NUMBER})-of_(?P<worker_count>{_NUMBER})"
    rf"_(?P<number>{_NUMBER})\.safetensors",
    DONE: rf"{_ATTEMPT}done_(?P<worker_id>{_NUMBER})\.json",
    COMMIT: rf"{_STEP}COMMIT",
    BAD: rf"{_STEP}BAD_(?P<generation>{_NUMBER})",
    VERIFIED: rf"{_STEP}VERIFIED_(?P<generation>{_NUMBER})",
    PIN: rf"{_STEP}PIN",
    RUN: r"RUN_(?P<fence>[0-9]{16})",
    ROLLBACK: r"ROLLBACK_(?P<fence>[0-9]{16})",
    TRY: rf"RESUME_(?P<fence>[0-9]{{16}})/try_(?P<number>{_NUMBER})",
    ANSWER: rf"RESUME_(?P<fence>[0-9]{{16}})/try_(?P<number>{_NUMBER})_(?P<worker_id>{_NUMBER})",
    STOP: rf"STOP_(?P<fence>[0-9]{{16}})/stop_(?P<worker_id>{_NUMBER})",
}


def step_prefix(step: int) -> str:
    """The prefix of all objects of a step."""
    return f"step_{step:012d}/"


def attempt_prefix(step: int, fence: int) -> str:
    """The prefix of all objects that one run wrote of a step."""
    return f"{step_prefix(step)}a_{fence:016d}/"


def shard_key(step: int, fence: int, worker_id: int, worker_count: int, file: int) -> str:
    """The key of file `file` of a worker."""
    prefix = attempt_prefix(step, fence)
    return f"{prefix}shard_{worker_id}-of_{worker_count}_{file}.safetensors"


def done_key(step: int, fence: int, worker_id: int) -> str:
    """The key of a worker's done record: its files are in."""
    return f"{attempt_prefix(step, fence)}done_{worker_id}.json"


def commit_key(step: int) -> str:
    """The key of the manifest; a step exists if and only if this object does."""
    return f"{step_prefix(step)}COMMIT"


def bad_key(step: int, generation: int) -> str:
    """The key of the mark that this generation of COMMIT cannot be restored."""
    return f"{step_prefix(step)}BAD_{generation}"


def verified_key(step: int, generation: int) -> str:
    """The key of the record that the files of a copy were read, for this generation of COMMIT."""
    return f"{step_prefix(step)}VERIFIED_{generation}"


def pin_key(step: int) -> str:
    """The key of the mark that this step is not to be deleted."""
    return f"{step_prefix(step)}PIN"


def run_key(fence: int) -> str:
    """The key that announces a run: those with a lower fence are superseded."""
    return f"RUN_{fence:016d}"


def rollback_key(fence: int) -> str:
    """The key of the record from which step a run goes on."""
    return f"ROLLBACK_{fence:016d}"


def resume_prefix(fence: int) -> str:
    """The prefix of all proposals and answers of a run that restores."""
    return f"RESUME_{fence:016d}/"


def try_key(fence: int, number: int) -> str:
    """The key of proposal `number` of worker 0: the step to go on from."""
    return f"{resume_prefix(fence)}try_{number}"


def answer_key(fence: int, number: int, worker_id: int) -> str:
    """The key of a worker's answer to proposal `number`."""
    return f"{try_key(fence, number)}_{worker_id}"


def stop_prefix(fence: int) -> str:
    """The prefix of what the workers of a run put when they are told to stop."""
    return f"STOP_{fence:016d}/"


def stop_key(fence: int, worker_id: int) -> str:
    """The key of the step at which a worker was told to stop."""
    return f"{stop_prefix(fence)}stop_{worker_id}"


@dataclass(frozen=True)
class ObjectName:
    """The parts of a key; -1 for a number that keys of its kind do not have."""

    kind: str
    step: int = -1
    fence: int = -1
    worker_id: int = -1
    worker_count: int = -1
    number: int = -1
    """The number of a file among the worker's files, or of a proposal."""
    generation: int = -1


def parse_key(key: str) -> ObjectName | None:
    """The parts of a key, or None when it is not one of this format."""
    for kind, pattern in _kinds().items():
        if match := pattern.fullmatch(key):
            return ObjectName(
                kind, **{field: int(text) for field, text in match.groupdict().items()}
            )
    return None


@cache
def _kinds() -> Mapping[str, re.Pattern[str]]:
    """Compiled when the first key is read: importing the names costs nothing."""
    return {kind: re.compile(pattern, re.ASCII) for kind, pattern in _PATTERNS.items()}
