"""States of the localsim that kept its objects in the cloud's own file open as they were."""

import json
import sqlite3
from contextlib import closing

import pytest

from localsim.clock import Clock
from localsim.cloud.objects.files import object_database
from localsim.cloud.objects.storage_model import NewObject
from localsim.cloud.objects.store import ObjectKey, ObjectStore, has_no_objects

EARLIER = """
CREATE TABLE tpu_nodes (name TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE storage_generation (last INTEGER NOT NULL);
CREATE TABLE storage_buckets (
    name TEXT PRIMARY KEY, project TEXT NOT NULL, generation INTEGER NOT NULL,
    metageneration INTEGER NOT NULL, properties TEXT NOT NULL, created_s REAL NOT NULL,
    updated_s REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE storage_objects (
    bucket TEXT NOT NULL, name TEXT NOT NULL, generation INTEGER NOT NULL,
    metageneration INTEGER NOT NULL, size_bytes INTEGER NOT NULL, crc32c TEXT NOT NULL, md5 TEXT,
    properties TEXT NOT NULL, created_s REAL NOT NULL, updated_s REAL NOT NULL, body_file TEXT,
    PRIMARY KEY (bucket, name)
) WITHOUT ROWID;
CREATE TABLE storage_bodies (generation INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE storage_uploads (
    id TEXT PRIMARY KEY, new_object TEXT NOT NULL, received_bytes INTEGER NOT NULL,
    crc32c INTEGER NOT NULL, created_s REAL NOT NULL, result TEXT
) WITHOUT ROWID;
INSERT INTO storage_generation VALUES (40);
INSERT INTO storage_buckets VALUES ('box', 'p', 1, 1, '{"labels": {"a": "b"}}', 5, 5);
INSERT INTO storage_objects VALUES
    ('box', 'big', 7, 2, 4, 'AAAAAA==', NULL, '{"contentType": "a/b"}', 5, 6, 'cafe'),
    ('box', 'small', 8, 1, 3, 'Nks/tw==', 'kAFQmDzST7DWlj99KOF/cg==', '{}', 5, 5, NULL);
INSERT INTO storage_bodies VALUES (8, X'616263');
"""
NOW_S = 1_786_400_000.0
OPEN = {"bucket": "box", "name": "open", "properties": {}, "preconditions": {}, "expected": {}}
RESULT = {
    "bucket": "box",
    "name": "big",
    "generation": 7,
    "metageneration": 1,
    "size_bytes": 4,
    "crc32c": "AAAAAA==",
    "md5": None,
    "properties": {},
    "created_s": 5.0,
    "updated_s": 5.0,
    "body_file": "cafe",
}


@pytest.fixture
def earlier(tmp_path):
    (tmp_path / "objects" / "ca").mkdir(parents=True)
    (tmp_path / "objects" / "ca" / "cafe").write_bytes(b"four")
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "open").write_bytes(b"half")
    with closing(sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)) as connection:
        connection.executescript(EARLIER)
        connection.executemany(
            "INSERT INTO storage_uploads VALUES (?, ?, ?, 0, ?, ?)",
            [
                ("open", json.dumps(OPEN), 4, NOW_S, None),
                ("done", json.dumps({**OPEN, "name": "big"}), 4, NOW_S, json.dumps(RESULT)),
            ],
        )
        yield connection


def opened(directory, earlier):
    return closing(ObjectStore(directory, Clock(manual_start_s=NOW_S), earlier=earlier))


def check(store):
    assert store.buckets.get("box").properties == {"labels": {"a": "b"}}
    for name, data in (("big", b"four"), ("small", b"abc")):
        with store.open(ObjectKey("box", name)) as found:
            assert found.read() == data
    big = store.get(ObjectKey("box", "big"))
    assert (big.generation, big.metageneration, big.component_count) == (7, 2, None)
    assert big.properties == {"contentType": "a/b"}
    assert store.uploads.result("done").body_files == ("cafe",)
    upload = store.uploads.open("open")
    upload.body.close()
    assert (upload.new, upload.body.size_bytes) == (NewObject("box", "open", {}), 4)


def test_everything_is_there_and_generations_go_on(earlier, tmp_path):
    assert not has_no_objects(tmp_path, earlier)
    with opened(tmp_path, earlier) as store:
        check(store)
        created = store.buckets.create("p", "other", {})
        assert created.generation > 40
    assert earlier.execute("SELECT name FROM sqlite_master").fetchall() == [("tpu_nodes",)]
    assert not has_no_objects(tmp_path, earlier)
    with opened(tmp_path, earlier) as store:
        check(store)
        assert store.buckets.get("other") == created


@pytest.mark.parametrize("step", ["copy_rows", "drop_rows"])
def test_a_crash_before_or_after_the_copy_is_harmless(earlier, tmp_path, monkeypatch, step):
    real = getattr(object_database, step)

    def crash(*connections):
        if step == "copy_rows":
            real(*connections)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(object_database, step, crash)
        with pytest.raises(KeyboardInterrupt):
            ObjectStore(tmp_path, Clock(manual_start_s=NOW_S), earlier=earlier)
    with opened(tmp_path, earlier) as store:
        check(store)


def test_a_store_that_was_never_there_or_is_lost(tmp_path):
    with closing(sqlite3.connect(":memory:")) as nothing:
        assert has_no_objects(tmp_path, nothing)
        with opened(tmp_path, nothing):
            assert not has_no_objects(tmp_path, nothing)
        (tmp_path / "objects.sqlite").write_bytes(b"")
        assert has_no_objects(tmp_path, nothing)
