"""A simulator that waits for no disk: `python unsynced.py serve …`; and this process likewise.

What is written is there for whoever reads it later, also after a kill -9; only a power loss could
take it away. That it does not is what tests/system/power_loss shows of programs that do wait, as
those of tests/system/storage and tests/client/google/test_server.py do as well.
"""

import os
import sqlite3
import sys
from functools import partial
from typing import Any


class UnsyncedConnection(sqlite3.Connection):
    """A database that never waits for its disk."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Run a statement, as it is or so that nobody waits."""
        if sql.startswith("PRAGMA synchronous"):
            sql = "PRAGMA synchronous = OFF"
        return super().execute(sql, *parameters)


def forgo_syncs() -> None:
    """Wait for no disk in this process from now on; call it before localsim is imported."""
    os.fsync = os.fdatasync = check_descriptor
    sqlite3.connect = partial(sqlite3.connect, factory=UnsyncedConnection)


def waits_for_no_disk() -> bool:
    """Whether this process has called `forgo_syncs`."""
    return os.fsync is check_descriptor


def check_descriptor(file: Any) -> None:
    """Raise OSError for a descriptor that is none, as fsync does."""
    os.fstat(file if isinstance(file, int) else file.fileno())


if __name__ == "__main__":
    forgo_syncs()
    from localsim.__main__ import main

    sys.exit(main())
