"""Who notes facts: a random id for each TPUCTL_HOME, which says nothing about its owner."""

import secrets
from pathlib import Path

from tpuctl import config

_DIGITS = 16


def observer_id(home: Path) -> str:
    """The id under which this TPUCTL_HOME notes facts, made at the first call.

    Raises LocalIOError where it cannot be kept.
    """
    path = home / "observer"
    if not _read(path):
        config.create_private(path, secrets.token_hex(_DIGITS // 2).encode())
    return _read(path)


def _read(path: Path) -> str:
    try:
        text = path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return text if text.isalnum() and len(text) == _DIGITS else ""
