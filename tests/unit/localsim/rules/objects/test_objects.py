"""The rules of Cloud Storage, without a wire."""

import shutil

import pytest

from localsim.clock import Clock
from localsim.rules.objects.files.body_directory import INLINE_BYTES
from localsim.rules.objects.properties import merged_properties
from localsim.rules.objects.storage_model import (
    Hashes,
    NewObject,
    Preconditions,
    StorageError,
    check_object_name,
)
from localsim.rules.objects.store import ObjectKey, ObjectStore
from localsim.rules.objects.uploads.upload_sessions import SESSION_LIFE_S

NOW_S = 1_786_400_000.0
BIG = b"x" * (INLINE_BYTES + 1)


class Cloud:
    """A store that can be opened again, as after a kill."""

    def __init__(self, directory):
        self.directory = directory
        self.clock = Clock(manual_start_s=NOW_S)
        self.store = ObjectStore(self.directory, self.clock)

    def restart(self):
        self.store.close()
        self.store = ObjectStore(self.directory, self.clock)

    def put(self, name, data=b"", *, expected=None, **preconditions):
        new = NewObject("box", name, {}, Preconditions(**preconditions))
        incoming = self.store.bodies.receive()
        incoming.write(data)
        return self.store.publish(new, self.store.bodies.seal(incoming, expected or Hashes()))

    def read(self, name):
        with self.store.open(ObjectKey("box", name)) as found:
            return found.read()

    def files(self, folder):
        return [path for path in (self.directory / folder).rglob("*") if path.is_file()]


@pytest.fixture
def cloud(tmp_path):
    cloud = Cloud(tmp_path)
    cloud.store.buckets.create("p", "box", {})
    yield cloud
    cloud.store.close()


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
        ({"generation_not_match": 7}, 412, 304, 304),
        ({"generation_not_match": 8}, 412, None, None),
        ({"metageneration_match": 1}, 412, None, None),
        ({"metageneration_match": 2}, 412, 412, 412),
        ({"metageneration_not_match": 1}, 412, 304, 304),
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
    assert cloud.put("small", b"abc").body_files == ()
    assert cloud.put("limit", BIG[1:]).body_files == ()
    assert cloud.files("objects") == []
    big = cloud.put("big", BIG)
    assert [path.name for path in cloud.files("objects")] == list(big.body_files)
    assert (cloud.read("small"), cloud.read("limit"), cloud.read("big")) == (b"abc", BIG[1:], BIG)


def test_what_is_replaced_or_deleted_leaves_no_bytes(cloud):
    for data in (BIG, b"small", BIG):
        cloud.put("a", data)
    cloud.store.delete(ObjectKey("box", "a"))
    assert cloud.files("objects") == []
    bodies = cloud.store.database.connection.execute("SELECT count(*) FROM storage_bodies")
    assert bodies.fetchone() == (0,)


def test_a_refused_write_changes_nothing(cloud):
    cloud.put("a", b"old")
    refused(412, cloud.put, "a", BIG, generation_match=0)
    assert cloud.read("a") == b"old"
    assert cloud.files("objects") == []
    message = refused(400, cloud.put, "a", b"abc", expected=Hashes(crc32c="AAAAAA=="))
    assert message == 'Provided CRC32C "AAAAAA==" doesn\'t match calculated CRC32C "Nks/tw==".'


def test_an_open_body_outlives_its_object(cloud):
    cloud.put("a", BIG)
    with cloud.store.open(ObjectKey("box", "a")) as found:
        cloud.put("a", b"new")
        assert found.read() == BIG
    assert cloud.files("objects") == []


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


def test_a_new_beginning_leaves_one_empty_bucket(cloud):
    cloud.put("a", BIG)
    cloud.store.begin_again("p", "fresh", {})
    assert (cloud.store.count(), cloud.files("objects")) == (0, [])
    assert cloud.store.buckets.get("fresh").name == "fresh"
    refused(404, cloud.store.buckets.get, "box")


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
    refused(410, cloud.store.uploads.result, upload_id)
    assert cloud.files("incoming") == []


def test_a_session_goes_on_when_the_disk_did_not_take_the_object(cloud):
    upload_id = cloud.store.uploads.start(NewObject("box", "a", {}))
    upload = cloud.store.uploads.open(upload_id)
    upload.body.write(BIG)
    cloud.store.uploads.checkpoint(upload)
    body = cloud.store.bodies.seal(upload.body, Hashes())
    with pytest.raises(ZeroDivisionError), cloud.store.database.change():
        cloud.store.publish(upload.new, body, upload_id=upload_id)
        raise ZeroDivisionError
    assert cloud.files("objects") == []
    again = cloud.store.uploads.open(upload_id)
    body = cloud.store.bodies.seal(again.body, Hashes())
    cloud.store.publish(upload.new, body, upload_id=upload_id)
    assert cloud.read("a") == BIG


def test_a_session_without_its_bytes_is_none(cloud):
    upload_id = cloud.store.uploads.start(NewObject("box", "a", {}))
    (cloud.directory / "incoming" / upload_id).unlink()
    refused(404, cloud.store.uploads.open, upload_id)


def test_a_failing_disk_is_told(cloud):
    shutil.rmtree(cloud.directory / "incoming")
    assert refused(507, cloud.put, "a", BIG) == "localsim cannot write: ENOENT"


def test_patch_merges_and_update_replaces():
    old = {"contentType": "a/b", "metadata": {"x": "1", "y": "2"}}
    assert merged_properties(old, {"metadata": {"x": None, "z": "3"}, "contentType": None}) == {
        "metadata": {"y": "2", "z": "3"}
    }
    assert merged_properties(old, {"metadata": None}) == {"contentType": "a/b"}
    assert merged_properties({}, {"metadata": {"x": None}}) == {}


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb", "a\rb", "\ud800", "é" * 513])
def test_names_that_are_refused(name):
    refused(400, check_object_name, name)
