"""The SQLite file of the objects: one connection that changes it, and one that only reads.

Changes are made in `change` blocks. One alone is a transaction, durable when it ends. Those within
a `batch` are parts of one transaction: each is done as a whole or not at all, and a single `commit`
makes all of them durable; it blocks on the disk and may run in another thread. Meanwhile readers
see what was committed before, and never wait.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from localsim.rules.db.database import connect
from localsim.rules.objects.files.durable_files import disk_errors
from localsim.rules.objects.storage_model import StorageError
from localsim.rules.objects.tables import SCHEMA, SCHEMA_VERSION
from localsim.state_directory import synchronize

PAGE_BYTES = 16384
"""Bodies of 64 KiB are written in two thirds of the time that pages of 4 KiB take."""


class ObjectDatabase:
    """The rows of buckets, objects and uploads, and the files that change with them."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; raises NewerSchemaError, sqlite3.Error or OSError."""
        path.touch(mode=0o600)
        self._writer = connect(path, SCHEMA_VERSION, page_bytes=PAGE_BYTES, check_same_thread=False)
        self._reader = connect(path, SCHEMA_VERSION, page_bytes=PAGE_BYTES)
        self._reader.execute("PRAGMA query_only = ON")
        self._lock = threading.Lock()
        self._is_open = False
        self._changes_before = 0
        self._unsynchronized: set[Path] = set()
        self._undo: list[Callable[[], object]] = []
        self._then: list[Callable[[], object]] = []
        with self.change():
            for statement in SCHEMA:
                self._writer.execute(statement)
            self._writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection to read from: within a change it sees the change's own rows."""
        return self._writer if self._is_open else self._reader

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Run one statement on `connection` with the values of its question marks."""
        return self.connection.execute(statement, values)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the block read the rows of one moment."""
        connection = self.connection
        if connection.in_transaction:
            yield
            return
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("COMMIT")

    @contextmanager
    def change(self) -> Iterator[None]:
        """Run the block as a whole or not at all; durable at its end, or with the batch.

        Raises StorageError 507 when the disk does not take it.
        """
        with _database_errors():
            if self._is_open:
                with self._part():
                    yield
            else:
                with self.batch():
                    yield
                self.commit()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Gather the changes of the block: `commit` must follow, unless the block fails."""
        self._lock.acquire()  # noqa: SIM115 (commit releases it, maybe in another thread)
        try:
            with _database_errors():
                self._writer.execute("BEGIN IMMEDIATE")
            self._changes_before = self._writer.total_changes
            self._is_open = True
            yield
            self._check_whole()
        except BaseException:
            self._is_open = False
            try:
                self._roll_back()
            finally:
                self._lock.release()
            raise
        self._is_open = False

    def commit(self) -> None:
        """Make the batch durable, then remove what it has replaced; blocks on the disk.

        Raises StorageError 507, with nothing done.
        """
        try:
            if self.has_changed:  # else no row names what has been prepared
                with disk_errors():
                    for path in self._unsynchronized:
                        synchronize(path)
            with _database_errors():
                self._writer.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        else:
            _do_all(self._then)
        finally:
            self._forget()
            self._lock.release()

    @property
    def has_changed(self) -> bool:
        """Whether the batch has changed any row: if not, its commit does not block."""
        return self._writer.total_changes != self._changes_before

    def synchronize_first(self, path: Path) -> None:
        """Within a change: flush the file or directory before the rows that name it."""
        self._unsynchronized.add(path)

    def on_rollback(self, action: Callable[[], object]) -> None:
        """Within a change: call `action` when the change is rolled back."""
        self._undo.append(action)

    def after_commit(self, action: Callable[[], object]) -> None:
        """Within a change: call `action` after the commit, maybe in another thread."""
        self._then.append(action)

    def close(self) -> None:
        """Close the file after the commit that is under way."""
        with self._lock:
            self._reader.close()
            self._writer.close()

    @contextmanager
    def _part(self) -> Iterator[None]:
        self._check_whole()
        undo, then = len(self._undo), len(self._then)
        self._writer.execute("SAVEPOINT part")
        try:
            yield
            self._writer.execute("RELEASE part")
        except BaseException:
            if self._writer.in_transaction:  # else everything is rolled back with the batch
                self._writer.execute("ROLLBACK TO part")
                self._writer.execute("RELEASE part")
                del self._then[then:]
                self._take_back(undo)
            raise

    def _check_whole(self) -> None:
        """Raise 507 when SQLite itself has rolled the transaction back."""
        if not self._writer.in_transaction:
            raise _not_written("the transaction was rolled back")

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")
        self._take_back(0)
        self._forget()

    def _take_back(self, mark: int) -> None:
        undone = self._undo[mark:]
        del self._undo[mark:]
        _do_all(reversed(undone))

    def _forget(self) -> None:
        self._unsynchronized.clear()
        self._undo.clear()
        self._then.clear()


def _do_all(actions: Iterable[Callable[[], object]]) -> None:
    """Call the actions; a file that cannot be removed is removed at the next start."""
    for action in actions:
        with suppress(OSError):
            action()


@contextmanager
def _database_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _not_written(error) from error


def _not_written(cause: object) -> StorageError:
    return StorageError(507, "insufficientStorage", f"localsim cannot write: {cause}")
