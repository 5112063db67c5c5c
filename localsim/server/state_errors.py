"""A state directory that cannot be used, or holds what nobody can read: one line, one exit code."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localsim.cloud.db.database import NewerSchemaError
from localsim.cloud.db.journal import NotWrittenError
from localsim.cloud.model.cloud_errors import CloudError
from localsim.cloud.objects.storage_model import StorageError
from localsim.cloud.objects.store import has_no_objects
from localsim.service_ports import ServeError
from localsim.state_directory import StateDirectory, StateDirectoryError

_UNREADABLE = (
    CloudError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
"""What reading, and going on from, a document raises that nobody has written so."""


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
    except _UNREADABLE as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ServeError(f"the state in {path} cannot be read: {cause}", 62) from error
