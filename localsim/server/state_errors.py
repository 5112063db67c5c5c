"""A state directory that cannot be used, or holds what nobody can read: one line, one exit code."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localsim.cloud.db.database import NewerSchemaError
from localsim.cloud.db.journal import UNREADABLE, NotWrittenError, UnreadableRecord
from localsim.cloud.objects.storage_model import StorageError
from localsim.cloud.objects.store import has_no_objects
from localsim.service_ports import ServeError
from localsim.state_directory import StateDirectory, StateDirectoryError


def describe_unreadable(record: UnreadableRecord) -> str:
    """One line on a record that is kept and not served, with the ways out."""
    return (
        f"{record.table} {record.name!r} cannot be read ({record.cause}) and is not served; to "
        "delete such records run: tpuctl local reset; to leave them: tpuctl local up --name NAME"
    )


def check_state_present(state: StateDirectory, connection: sqlite3.Connection) -> None:
    """Raises DirectoryRefused where something was served before, and its state is gone."""
    tables = connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    state.require_present("state.sqlite", is_empty=not tables)
    lacks_objects = has_no_objects(state.path / "storage", connection)
    state.require_present("storage/objects.sqlite", is_empty=lacks_objects)


@contextmanager
def convert_state_errors(path: Path) -> Iterator[None]:
    """Whatever the directory at `path` raises in the block becomes RefusedToServe."""
    try:
        yield
    except StateDirectoryError as error:
        raise ServeError(str(error), error.exit_code) from error
    except NotWrittenError as error:
        raise ServeError(error.message, 60 if error.may_pass else 62) from error
    except StorageError as error:
        raise ServeError(error.message, 60) from error
    except (NewerSchemaError, sqlite3.DatabaseError) as error:
        raise ServeError(f"cannot open the state: {error}", 62) from error
    except OSError as error:
        cause = error.strerror or str(error)
        raise ServeError(f"cannot use {error.filename or path}: {cause}", 60) from error
    except UNREADABLE as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ServeError(f"the state in {path} cannot be read: {cause}", 62) from error
