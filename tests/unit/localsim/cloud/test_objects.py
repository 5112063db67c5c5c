"""The rules of Cloud Storage, without a wire."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.clock import Clock
from localsim.cloud.database import open_database
from localsim.cloud.objects import ObjectKey, ObjectStore
from localsim.cloud.objects_bodies import INLINE_BYTES
from localsim.cloud.objects_listing import ListQuery
from localsim.cloud.objects_model import (
    Hashes,
    NewObject,
    Preconditions,
    StorageError,
    check_object_name,
    merged,
)
from localsim.cloud.objects_uploads import SESSION_LIFE_S

NOW_S = 1_786_400_000.0
BIG = b"x" * (INLINE_BYTES + 1)


class Cloud:
    """A store that can be opened again, as after a kill."""

    def __init__(self, directory):
        self.directory = directory
        self.clock = Clock(manual_start_s=NOW_S)
        self.connection = None
        self.restart()

    def restart(self):
        self.close()
        self.connection = open_database(self.directory / "state.db")
        self.store = ObjectStore(self.connection, self.directory, self.clock)

    def close(self):
        if self.connection is not None:
            self.connection.close()

    def put(self, name, data=b"", *, expected=None, **preconditions):
        new = NewObject("box", name, {}, Preconditions(**preconditions))
        incoming = self.store.bodies.receive()
        incoming.write(data)
        return self.store.publish(new, self.store.bodies.seal(incoming, expected or Hashes()))

    def read(self, name):
        with self.store.open_body(self.store.get(ObjectKey("box", name))) as body:
            return body.read()

    def files(self, folder):
        return [path for path in (self.directory / folder).rglob("*") if path.is_file()]


@pytest.fixture
def cloud(tmp_path):
    cloud = Cloud(tmp_path)
    cloud.store.buckets.create("p", "box", {})
    yield cloud
    cloud.close()


def refused(code, call, *args, **kwargs):
    with pytest.raises(StorageError) as error:
        call(*args, **kwargs)
    assert error.value.code == code
    return error.value.message


@pytest.mark.parametrize(
    ("condition", "absent", "present", "reading"),
    [
        ({"generation_match": 0}, None, 412, 412),
        ({"generation_match": 7}, 412, None, None),
        ({"generation_match": 8}, 412, 412, 412),
        ({"generation_not_match": 0}, 412, None, None),
        ({"generation_not_match": 7}, 412, 412, 304),
        ({"generation_not_match": 8}, 412, None, None),
        ({"metageneration_match": 1}, 412, None, None),
        ({"metageneration_match": 2}, 412, 412, 412),
        ({"metageneration_not_match": 1}, 412, 412, 304),
        ({"metageneration_not_match": 2}, 412, None, None),
        ({"etag_match": "Ny8x"}, 412, None, None),
        ({"etag_match": "*"}, 412, None, None),
        ({"etag_match": "other"}, 412, 412, 412),
        ({"etag_not_match": "*"}, None, 412, 304),
        ({"etag_not_match": '"a", "Ny8x"'}, None, 412, 304),
        ({"generation_match": 7, "metageneration_match": 2}, 412, 412, 412),
        ({}, None, None, None),
    ],
)
def test_preconditions(condition, absent, present, reading):
    class Current:
        generation, metageneration, etag = 7, 1, "Ny8x"

    def outcome(current, **kwargs):
        try:
            Preconditions(**condition).check(current, **kwargs)
        except StorageError as error:
            return error.code
        return None

    assert outcome(None) == absent
    assert outcome(Current) == present
    assert outcome(Current, reading=True) == reading


def test_generations_are_microseconds_and_grow_while_the_clock_stands(cloud):
    first, second = cloud.put("a"), cloud.put("a")
    assert (first.generation, second.generation) == (NOW_S * 1e6 + 1, NOW_S * 1e6 + 2)
    cloud.store.delete(ObjectKey("box", "a"))
    cloud.restart()
    cloud.clock.advance(1)
    assert cloud.put("a").generation == (NOW_S + 1) * 1e6


def test_a_small_body_is_a_row_and_a_large_one_a_file(cloud):
    assert cloud.put("small", b"abc").body_file is None
    assert cloud.put("limit", BIG[1:]).body_file is None
    assert cloud.files("objects") == []
    big = cloud.put("big", BIG)
    assert [path.name for path in cloud.files("objects")] == [big.body_file]
    assert (cloud.read("small"), cloud.read("limit"), cloud.read("big")) == (b"abc", BIG[1:], BIG)


def test_what_is_replaced_or_deleted_leaves_no_bytes(cloud):
    for data in (BIG, b"small", BIG):
        cloud.put("a", data)
    cloud.store.delete(ObjectKey("box", "a"))
    assert cloud.files("objects") == []
    assert cloud.connection.execute("SELECT count(*) FROM storage_bodies").fetchone() == (0,)


def test_a_refused_write_changes_nothing(cloud):
    cloud.put("a", b"old")
    refused(412, cloud.put, "a", BIG, generation_match=0)
    assert cloud.read("a") == b"old"
    assert cloud.files("objects") == []
    message = refused(400, cloud.put, "a", b"abc", expected=Hashes(crc32c="AAAAAA=="))
    assert message == 'Provided CRC32C "AAAAAA==" doesn\'t match calculated CRC32C "Nks/tw==".'


def test_an_open_body_outlives_its_object(cloud):
    with cloud.store.open_body(cloud.put("a", BIG)) as body:
        cloud.put("a", b"new")
        assert body.read() == BIG


def test_a_bucket_that_goes_while_an_upload_runs(cloud):
    incoming = cloud.store.bodies.receive()
    incoming.write(BIG)
    body = cloud.store.bodies.seal(incoming, Hashes())
    cloud.store.buckets.delete("box")
    refused(404, cloud.store.publish, NewObject("box", "a", {}), body)
    assert cloud.files("objects") == []


def test_a_reset_while_an_upload_runs_leaves_no_object_without_bytes(cloud):
    incoming = cloud.store.bodies.receive()
    incoming.write(BIG)
    body = cloud.store.bodies.seal(incoming, Hashes())
    cloud.store.clear()
    cloud.store.buckets.create("p", "box", {})
    refused(503, cloud.store.publish, NewObject("box", "a", {}), body)
    assert cloud.store.count() == 0


def test_a_restart_keeps_what_was_published_and_sweeps_the_rest(cloud):
    cloud.put("a", BIG)
    half, sealed = cloud.store.bodies.receive(), cloud.store.bodies.receive()
    for incoming in (half, sealed):
        incoming.write(BIG)
    cloud.store.bodies.seal(sealed, Hashes())
    assert (len(cloud.files("incoming")), len(cloud.files("objects"))) == (1, 2)
    half.close()
    cloud.restart()
    assert (len(cloud.files("incoming")), len(cloud.files("objects"))) == (0, 1)
    assert cloud.read("a") == BIG


def test_a_session_survives_a_kill_between_its_rename_and_its_publication(cloud):
    upload_id = cloud.store.uploads.start(NewObject("box", "a", {"metadata": {"k": "v"}}))
    upload = cloud.store.uploads.open(upload_id)
    upload.body.write(BIG)
    cloud.store.uploads.checkpoint(upload)
    upload.body.write(b"not on record")
    upload.body.close()
    cloud.store.bodies.seal(cloud.store.uploads.open(upload_id).body, Hashes())
    cloud.restart()
    upload = cloud.store.uploads.open(upload_id)
    body = cloud.store.bodies.seal(upload.body, Hashes())
    stored = cloud.store.publish(upload.new, body, upload_id=upload_id)
    assert cloud.read("a") == BIG
    cloud.restart()
    assert cloud.store.uploads.result(upload_id) == stored
    assert stored.properties == {"metadata": {"k": "v"}}


def test_a_session_lives_a_week(cloud):
    upload_id = cloud.store.uploads.start(NewObject("box", "a", {}))
    cloud.clock.advance(SESSION_LIFE_S - 1)
    cloud.restart()
    assert cloud.store.uploads.result(upload_id) is None
    cloud.clock.advance(2)
    cloud.restart()
    refused(404, cloud.store.uploads.result, upload_id)
    assert cloud.files("incoming") == []


def test_a_failing_disk_is_told(cloud):
    shutil.rmtree(cloud.directory / "incoming")
    assert refused(507, cloud.put, "a", BIG) == "localsim cannot write: ENOENT"


def test_patch_merges_and_update_replaces():
    old = {"contentType": "a/b", "metadata": {"x": "1", "y": "2"}}
    assert merged(old, {"metadata": {"x": None, "z": "3"}, "contentType": None}) == {
        "metadata": {"y": "2", "z": "3"}
    }
    assert merged(old, {"metadata": None}) == {"contentType": "a/b"}
    assert merged({}, {"metadata": {"x": None}}) == {}


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb", "a\rb", "\ud800", "é" * 513])
def test_names_that_are_refused(name):
    refused(400, check_object_name, name)


def plain_listing(names, query):
    """What a listing is, by its definition: filter, then fold, in the order of UTF-8 bytes."""
    items, prefixes = [], []
    for name in sorted(names, key=str.encode):
        at = name.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
        if not name.startswith(query.prefix):
            continue
        if name < query.start or (query.end and name >= query.end):
            continue
        if at < 0:
            items.append(name)
        elif name[: at + len(query.delimiter)] not in prefixes:
            prefixes.append(name[: at + len(query.delimiter)])
    return items, prefixes


LETTERS = st.text("ab/\ud7ff\ue000\U0010ffff", max_size=4)


@given(
    names=st.sets(LETTERS.filter(bool), max_size=12),
    prefix=LETTERS,
    delimiter=st.sampled_from(["", "/", "a/", "\U0010ffff"]),
    end=LETTERS,
    limit=st.integers(1, 4),
)
def test_pages_add_up_to_the_plain_listing(names, prefix, delimiter, end, limit, tmp_path_factory):
    connection = open_database(tmp_path_factory.getbasetemp() / "listing.db")
    store = ObjectStore(connection, tmp_path_factory.getbasetemp() / "listing", Clock())
    connection.execute("DELETE FROM storage_objects")
    connection.execute("DELETE FROM storage_buckets")
    store.buckets.create("p", "box", {})
    for name in names:
        incoming = store.bodies.receive()
        store.publish(NewObject("box", name, {}), store.bodies.seal(incoming, Hashes()))
    items, prefixes, start = [], [], ""
    while start is not None:
        query = ListQuery(prefix, delimiter, start, end, limit)
        page = store.list("box", query)
        assert len(page) <= limit
        items += [item.name for item in page.items]
        prefixes += page.prefixes
        start = page.next_start
    connection.close()
    assert (items, prefixes) == plain_listing(names, ListQuery(prefix, delimiter, "", end))
