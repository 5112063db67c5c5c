"""Changes of the objects' database: alone, together, undone, and on a disk that takes nothing."""

import sqlite3
from contextlib import closing, contextmanager
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from localsim.rules.db.database import NewerSchemaError
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.storage_model import StorageError
from localsim.rules.objects.tables import SCHEMA_VERSION


@pytest.fixture
def database(tmp_path):
    with closing(ObjectDatabase(tmp_path / "objects.sqlite")) as found:
        yield found


def put(database, generation, data=b""):
    database.connection.execute("INSERT INTO storage_bodies VALUES (?, ?)", (generation, data))


def found(database):
    rows = database.connection.execute("SELECT generation FROM storage_bodies ORDER BY 1")
    return [generation for (generation,) in rows]


@contextmanager
def full_disk(path):
    """No file of this process grows beyond the size of the file."""
    soft, hard = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (path.stat().st_size, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))


def test_readers_see_a_batch_when_it_is_committed(database):
    with database.batch():
        with database.change():
            put(database, 1)
        with database.change():
            assert found(database) == [1]
    assert found(database) == []
    database.commit()
    assert found(database) == [1]


def test_what_fails_within_a_batch_is_undone_alone(database):
    heard = []
    with database.batch():
        with database.change():
            put(database, 1)
            database.on_rollback(lambda: heard.append("1 undone"))
            database.after_commit(lambda: heard.append("1 durable"))
        with pytest.raises(ZeroDivisionError), database.change():
            put(database, 2)
            with database.change():
                put(database, 3)
                database.on_rollback(lambda: heard.append("3 undone"))
            database.on_rollback(lambda: heard.append("2 undone"))
            database.after_commit(lambda: heard.append("2 durable"))
            raise ZeroDivisionError
        assert heard == ["2 undone", "3 undone"]
    database.commit()
    assert heard == ["2 undone", "3 undone", "1 durable"]
    assert found(database) == [1]


def test_a_change_alone_is_durable_when_it_ends(database, tmp_path):
    with database.change():
        put(database, 1)
    with closing(ObjectDatabase(tmp_path / "objects.sqlite")) as other:
        assert found(other) == [1]


def test_a_disk_that_is_full_undoes_everything_and_the_next_change_succeeds(database, tmp_path):
    heard = []
    with full_disk(tmp_path / "objects.sqlite-wal"):
        with database.batch():
            for generation in (1, 2):
                with database.change():
                    put(database, generation, b"x" * 10_000)
                    database.on_rollback(lambda: heard.append("undone"))
                    database.after_commit(lambda: heard.append("durable"))
        with pytest.raises(StorageError) as error:
            database.commit()
        assert (error.value.code, error.value.reason) == (507, "insufficientStorage")
    assert heard == ["undone", "undone"]
    with database.change():
        put(database, 3)
    assert found(database) == [3]


def test_a_directory_that_cannot_be_synchronized_undoes_everything(database, tmp_path):
    with pytest.raises(StorageError, match="ENOENT"), database.change():
        put(database, 1)
        database.synchronize_first(tmp_path / "gone")
    assert found(database) == []


def test_nothing_follows_in_a_batch_that_sqlite_itself_has_rolled_back(database):
    with pytest.raises(StorageError, match="was rolled back"), database.batch():
        with database.change():
            put(database, 1)
        with pytest.raises(StorageError, match="UNIQUE constraint"), database.change():
            database.connection.execute("INSERT OR ROLLBACK INTO storage_bodies VALUES (1, '')")
        with pytest.raises(StorageError), database.change():
            put(database, 2)
    assert found(database) == []


def test_a_snapshot_is_of_one_moment(database):
    with database.snapshot():
        assert found(database) == []
        with database.batch():
            put(database, 1)
        database.commit()
        assert found(database) == []
    assert found(database) == [1]


def test_a_file_of_a_newer_localsim_is_refused(tmp_path):
    path = tmp_path / "objects.sqlite"
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(NewerSchemaError, match=f"has schema {SCHEMA_VERSION + 1}"):
        ObjectDatabase(path)
