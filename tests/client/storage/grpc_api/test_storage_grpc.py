"""google.storage.v2 by its generated client, and the same objects by the JSON API."""

import base64
import json
import os

import google_crc32c
import pytest
from google.api_core import exceptions
from google.cloud import _storage_v2 as storage_v2

from client.storage.storage_fixtures import HIERARCHICAL, UNIFORM

pytest_plugins = ("client.storage.grpc_api.grpc_fixtures",)

MIB = 1024 * 1024


@pytest.fixture
def box(wires):
    return wires.new_box()


def spec(wires, box, name, **fields):
    resource = storage_v2.Object(bucket=wires.bucket(box), name=name, **fields.pop("resource", {}))
    return storage_v2.WriteObjectSpec(resource=resource, **fields)


def messages(data, first, chunk=MIB, start=0, *, finish=True):
    """The messages of a WriteObject; the first one says what is written."""
    offsets = range(start, max(len(data), start + 1), chunk)
    for offset in offsets:
        content = data[offset : offset + chunk]
        yield storage_v2.WriteObjectRequest(
            **(first if offset == start else {}),
            write_offset=offset,
            checksummed_data=storage_v2.ChecksummedData(
                content=content, crc32c=google_crc32c.value(content)
            ),
            finish_write=finish and offset == offsets[-1],
        )


def written(wires, box, name, data, **fields):
    first = {"write_object_spec": spec(wires, box, name, **fields)}
    return wires.objects.write_object(messages(data, first)).resource


def read(wires, box, name, **fields):
    request = storage_v2.ReadObjectRequest(bucket=wires.bucket(box), object_=name, **fields)
    parts = list(wires.objects.read_object(request))
    for part in parts:
        content = part.checksummed_data.content
        assert google_crc32c.value(content) == part.checksummed_data.crc32c
    return parts


@pytest.mark.parametrize("size", [0, 1000, 400_000, 5 * MIB + 1])
def test_an_object_goes_there_and_comes_back(wires, box, size):
    data = os.urandom(size)
    stored = written(
        wires, box, "a/b", data, resource={"content_type": "text/x", "metadata": {"k": "v"}}
    )
    assert (stored.size, stored.name, stored.bucket) == (size, "a/b", wires.bucket(box))
    shown = box.request("GET", f"{box.objects}/a%2Fb").json
    assert shown["generation"] == str(stored.generation)
    assert shown["etag"] == stored.etag
    assert (shown["contentType"], shown["metadata"]) == ("text/x", {"k": "v"})
    assert base64.b64decode(shown["crc32c"]) == stored.checksums.crc32c.to_bytes(4, "big")
    assert base64.b64decode(shown["md5Hash"]) == stored.checksums.md5_hash
    assert box.media("a%2Fb") == data
    parts = read(wires, box, "a/b")
    assert b"".join(part.checksummed_data.content for part in parts) == data
    assert parts[0].metadata.generation == stored.generation
    assert parts[0].object_checksums == stored.checksums
    got = wires.objects.get_object(bucket=wires.bucket(box), object_="a/b")
    assert got == parts[0].metadata


def test_ranges(wires, box):
    box.upload("x", b"0123456789")

    def part(**fields):
        (only,) = read(wires, box, "x", **fields)
        content = only.content_range
        return only.checksummed_data.content, content.start, content.end, content.complete_length

    assert part(read_offset=3) == (b"3456789", 3, 10, 10)
    assert part(read_offset=3, read_limit=2) == (b"34", 3, 5, 10)
    assert part(read_offset=-3) == (b"789", 7, 10, 10)
    assert part(read_offset=10) == (b"", 10, 10, 10)
    for fields in ({"read_offset": 11}, {"read_limit": -1}):
        with pytest.raises(exceptions.OutOfRange):
            read(wires, box, "x", **fields)


def test_preconditions_hold(wires, box):
    stored = written(wires, box, "x", b"1", if_generation_match=0)
    with pytest.raises(exceptions.FailedPrecondition):
        written(wires, box, "x", b"2", if_generation_match=0)
    read(wires, box, "x", if_generation_match=stored.generation)
    with pytest.raises(exceptions.FailedPrecondition):
        read(wires, box, "x", if_metageneration_match=2)
    with pytest.raises(exceptions.Aborted):
        read(wires, box, "x", if_generation_not_match=stored.generation)
    request = storage_v2.DeleteObjectRequest(
        bucket=wires.bucket(box), object_="x", if_generation_match=7
    )
    with pytest.raises(exceptions.FailedPrecondition):
        wires.objects.delete_object(request)
    wires.objects.delete_object(bucket=wires.bucket(box), object_="x")
    with pytest.raises(exceptions.NotFound):
        read(wires, box, "x")


def test_wrong_checksums_and_offsets_are_refused(wires, box):
    first = {"write_object_spec": spec(wires, box, "x")}
    wrong = storage_v2.ChecksummedData(content=b"abc", crc32c=7)
    for bad in (
        {**first, "checksummed_data": wrong, "finish_write": True},
        {**first, "object_checksums": {"crc32c": 7}, "finish_write": True},
        {**first, "object_checksums": {"md5_hash": b"x" * 16}, "finish_write": True},
        {"write_object_spec": spec(wires, box, "x", object_size=9), "finish_write": True},
        {"write_object_spec": spec(wires, box, "a\nb"), "finish_write": True},
        {"write_object_spec": spec(wires, box, "x", appendable=True)},
        first,
        {},
    ):
        with pytest.raises(exceptions.InvalidArgument):
            wires.objects.write_object(iter([storage_v2.WriteObjectRequest(**bad)]))
    late = storage_v2.WriteObjectRequest(
        **first, write_offset=5, checksummed_data={"content": b"x"}, finish_write=True
    )
    with pytest.raises(exceptions.OutOfRange):
        wires.objects.write_object(iter([late]))
    with pytest.raises(exceptions.InvalidArgument):
        wires.objects.write_object(iter(()))
    assert "items" not in box.request("GET", box.objects).json
    assert box.incoming == []


def test_a_session_goes_on_where_it_was(wires, box):
    data = os.urandom(3 * MIB)
    started = wires.objects.start_resumable_write(
        storage_v2.StartResumableWriteRequest(write_object_spec=spec(wires, box, "x"))
    )
    first = {"upload_id": started.upload_id}
    part = wires.objects.write_object(messages(data[: 2 * MIB], first, finish=False))
    assert part.persisted_size == 2 * MIB
    status = wires.objects.query_write_status(upload_id=started.upload_id)
    assert status.persisted_size == 2 * MIB
    # Its URL over HTTP is that of the same session.
    path = f"{box.uploads}?uploadType=resumable&upload_id={started.upload_id}"
    reply = box.request("PUT", path, Content_Range="bytes */*")
    assert (reply.status, reply.headers["Range"]) == (308, f"bytes=0-{2 * MIB - 1}")
    stored = wires.objects.write_object(messages(data, first, start=MIB)).resource
    assert stored.size == 3 * MIB
    assert box.media("x") == data
    status = wires.objects.query_write_status(upload_id=started.upload_id)
    assert status.resource.generation == stored.generation
    with pytest.raises(exceptions.NotFound):
        wires.objects.query_write_status(upload_id="nothing")
    again = wires.objects.start_resumable_write(
        storage_v2.StartResumableWriteRequest(write_object_spec=spec(wires, box, "y"))
    )
    wires.objects.cancel_resumable_write(upload_id=again.upload_id)
    with pytest.raises(exceptions.NotFound):
        wires.objects.query_write_status(upload_id=again.upload_id)


def test_a_bidi_write_answers_on_the_way(wires, box):
    first = storage_v2.BidiWriteObjectRequest(
        write_object_spec=spec(wires, box, "x"),
        checksummed_data={"content": b"abc"},
        state_lookup=True,
        flush=True,
    )
    last = storage_v2.BidiWriteObjectRequest(
        write_offset=3, checksummed_data={"content": b"def"}, finish_write=True
    )
    answers = list(wires.objects.bidi_write_object(iter([first, last])))
    assert answers[0].persisted_size == 3
    assert answers[1].resource.size == 6
    assert box.media("x") == b"abcdef"


def test_listings(wires):
    box = wires.new_box(**HIERARCHICAL)
    for name in ("a/1", "a/2", "b", "c/d/e"):
        written(wires, box, name, b"1")
    wires.control.create_folder(parent=wires.bucket(box), folder_id="empty")

    def listed(**fields):
        request = storage_v2.ListObjectsRequest(parent=wires.bucket(box), **fields)
        pager = wires.objects.list_objects(request)
        pages = list(pager.pages)
        objects = [each.name for page in pages for each in page.objects]
        return objects, [prefix for page in pages for prefix in page.prefixes]

    assert listed() == (["a/1", "a/2", "b", "c/d/e"], [])
    assert listed(page_size=1) == listed()
    assert listed(delimiter="/") == (["b"], ["a/", "c/"])
    everything = {"delimiter": "/", "include_folders_as_prefixes": True}
    assert listed(**everything) == (["b"], ["a/", "c/", "empty/"])
    assert listed(prefix="a/", lexicographic_start="a/2") == (["a/2"], [])
    assert listed(match_glob="**/e") == (["c/d/e"], [])
    with pytest.raises(exceptions.InvalidArgument):
        listed(page_size=-1)
    request = storage_v2.ListObjectsRequest(
        parent=wires.bucket(box), read_mask={"paths": ["name"]}, prefix="b"
    )
    (only,) = wires.objects.list_objects(request)
    assert only == storage_v2.Object(name="b")


def test_objects_change_and_multiply(wires, box):
    objects, parent = wires.objects, wires.bucket(box)
    stored = written(wires, box, "x", b"abc", resource={"metadata": {"a": "1", "b": "2"}})
    changed = objects.update_object(
        object_=storage_v2.Object(bucket=parent, name="x", cache_control="no-store"),
        update_mask={"paths": ["cache_control", "metadata.a"]},
    )
    assert (changed.cache_control, dict(changed.metadata)) == ("no-store", {"b": "2"})
    assert (changed.generation, changed.metageneration) == (stored.generation, 2)
    replaced = objects.update_object(
        object_=storage_v2.Object(bucket=parent, name="x", metadata={"c": "3"}),
        update_mask={"paths": ["metadata"]},
    )
    assert dict(replaced.metadata) == {"c": "3"}
    with pytest.raises(exceptions.InvalidArgument):
        objects.update_object(
            object_=storage_v2.Object(bucket=parent, name="x"), update_mask={"paths": ["size"]}
        )
    composed = objects.compose_object(
        storage_v2.ComposeObjectRequest(
            destination=storage_v2.Object(bucket=parent, name="twice"),
            source_objects=[{"name": "x"}, {"name": "x"}],
        )
    )
    assert (composed.size, composed.component_count) == (6, 2)
    copied = objects.rewrite_object(
        storage_v2.RewriteObjectRequest(
            source_bucket=parent,
            source_object="twice",
            destination_bucket=parent,
            destination_name="copy",
        )
    )
    assert copied.done
    assert copied.resource.name == "copy"
    moved = objects.move_object(bucket=parent, source_object="copy", destination_object="moved")
    assert moved.name == "moved"
    assert box.media("moved") == b"abcabc"
    assert box.request("GET", f"{box.objects}/copy").status == 404


def test_buckets(wires):
    objects = wires.objects
    bucket = storage_v2.Bucket(
        project="projects/p",
        location="EU",
        labels={"a": "b"},
        iam_config={"uniform_bucket_level_access": {"enabled": True}},
        hierarchical_namespace={"enabled": True},
    )
    made = objects.create_bucket(parent="projects/_", bucket=bucket, bucket_id="by-grpc")
    assert (made.name, made.location, made.location_type) == (
        "projects/_/buckets/by-grpc",
        "EU",
        "multi-region",
    )
    assert made.hierarchical_namespace.enabled
    assert objects.get_bucket(name=made.name) == made
    assert made in list(objects.list_buckets(parent="projects/p"))
    shown = wires.service.request("GET", "/storage/v1/b/by-grpc").json
    assert (shown["metageneration"], shown["labels"]) == ("1", {"a": "b"})
    with pytest.raises(exceptions.AlreadyExists):
        objects.create_bucket(parent="projects/_", bucket=bucket, bucket_id="by-grpc")
    with pytest.raises(exceptions.InvalidArgument):
        objects.get_bucket(name="by-grpc")
    objects.delete_bucket(name=made.name)
    with pytest.raises(exceptions.NotFound):
        objects.get_bucket(name=made.name)


def test_what_is_absent_says_so(wires):
    box = wires.new_box(**UNIFORM)
    with pytest.raises(exceptions.MethodNotImplemented, match="RestoreObject"):
        wires.objects.restore_object(bucket=wires.bucket(box), object_="x", generation=1)
    with pytest.raises(exceptions.MethodNotImplemented, match="kms_key"):
        written(wires, box, "x", b"", resource={"kms_key": "projects/p"})
    assert json.dumps(box.request("GET", box.objects).json) == '{"kind": "storage#objects"}'


KMS = "projects/p/locations/us/keyRings/r/cryptoKeys/k"


def test_what_is_written_under_a_default_key_is_encrypted(wires):
    box = wires.new_box(encryption={"defaultKmsKeyName": KMS})
    data = os.urandom(400_000)
    written(wires, box, "x", data)
    started = wires.objects.start_resumable_write(
        storage_v2.StartResumableWriteRequest(write_object_spec=spec(wires, box, "y"))
    )
    wires.objects.write_object(messages(data, {"upload_id": started.upload_id}))
    for name in ("x", "y"):
        shown = box.request("GET", f"{box.objects}/{name}").json
        assert shown["kmsKeyName"] == f"{KMS}/cryptoKeyVersions/1"
        assert b"".join(part.checksummed_data.content for part in read(wires, box, name)) == data
    (listed, _) = wires.objects.list_objects(parent=wires.bucket(box))
    assert not listed.checksums.crc32c
