"""The names of a checkpoint's objects: schema 1."""

from __future__ import annotations

import re
from dataclasses import dataclass

SCHEMA = 1
LAST_STEP = 10**12 - 1
LAST_FENCE = 10**16 - 1

_NAME = re.compile(
    r"step_(?P<step>[0-9]{12})/"
    r"(?:(?P<commit>COMMIT)|BAD_(?P<bad>[0-9]+)|"
    r"a_(?P<fence>[0-9]{16})/"
    r"(?:shard_(?P<shard>[0-9]+)-of_(?P<count>[0-9]+)\.safetensors|done_(?P<done>[0-9]+)\.json))"
)
_ROLLBACK = re.compile(r"ROLLBACK_([0-9]{16})")


def step_prefix(step: int) -> str:
    """All objects of a step begin with it."""
    return f"step_{step:012d}/"


def attempt_prefix(step: int, fence: int) -> str:
    """All that one run wrote of a step begins with it."""
    return f"{step_prefix(step)}a_{fence:016d}/"


def shard_key(step: int, fence: int, worker_id: int, worker_count: int) -> str:
    """The arrays of one worker."""
    return f"{attempt_prefix(step, fence)}shard_{worker_id}-of_{worker_count}.safetensors"


def done_key(step: int, fence: int, worker_id: int) -> str:
    """A worker's word that its arrays are in."""
    return f"{attempt_prefix(step, fence)}done_{worker_id}.json"


def commit_key(step: int) -> str:
    """The manifest; a step exists if and only if it does."""
    return f"{step_prefix(step)}COMMIT"


def bad_key(step: int, generation: int) -> str:
    """The mark that this generation of the manifest cannot be restored."""
    return f"{step_prefix(step)}BAD_{generation}"


def rollback_key(fence: int) -> str:
    """From which step a run went on."""
    return f"ROLLBACK_{fence:016d}"


@dataclass(frozen=True)
class Name:
    """What a key says; None where it says nothing."""

    step: int
    fence: int | None = None
    shard_count: int | None = None
    done: int | None = None
    bad_generation: int | None = None
    is_commit: bool = False


def parse(key: str) -> Name | None:
    """What the name of an object of a step says, or None when it is not ours."""
    match = _NAME.fullmatch(key)
    if match is None:
        return None
    fence, count, done, bad = (_number(match[name]) for name in ("fence", "count", "done", "bad"))
    return Name(int(match["step"]), fence, count, done, bad, match["commit"] is not None)


def rollback_fence(key: str) -> int | None:
    """The fence of a ROLLBACK, or None when the key is none."""
    match = _ROLLBACK.fullmatch(key)
    return int(match[1]) if match else None


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
