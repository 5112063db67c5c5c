"""Objects made of others, kept generations and holds, through Google's own client."""

import os

import pytest
from google.api_core import exceptions

pytest_plugins = ("client.storage.storage_fixtures",)

MIB = 1024 * 1024


@pytest.fixture
def versioned(own_bucket):
    own_bucket.reload()
    own_bucket.versioning_enabled = True
    own_bucket.patch()
    return own_bucket


def written(bucket, name, data=b"x", **properties):
    blob = bucket.blob(name)
    for field, value in properties.items():
        setattr(blob, field, value)
    blob.upload_from_string(data, content_type="text/x")
    return blob


def test_compose_joins_up_to_32_objects(own_bucket):
    parts = [written(own_bucket, f"p{number:02}", bytes([number])) for number in range(33)]
    whole = own_bucket.blob("whole")
    whole.content_type = "text/whole"
    whole.metadata = {"run": "7"}
    whole.compose(parts[:32], if_generation_match=0)
    assert (whole.component_count, whole.size, whole.md5_hash) == (32, 32, None)
    assert (whole.content_type, whole.metadata) == ("text/whole", {"run": "7"})
    assert whole.download_as_bytes() == bytes(range(32))
    whole.compose([whole, parts[32]], if_generation_match=whole.generation)
    assert (whole.component_count, whole.size) == (33, 33)
    with pytest.raises(exceptions.BadRequest, match="exceeds the maximum"):
        own_bucket.blob("more").compose(parts)
    with pytest.raises(exceptions.NotFound):
        own_bucket.blob("more").compose([own_bucket.blob("nope")])
    with pytest.raises(exceptions.PreconditionFailed):
        whole.compose(parts[:2], if_generation_match=0)


def test_compose_takes_the_generations_it_is_given(own_bucket):
    part = written(own_bucket, "part", b"abc")
    good, bad = [part.generation], [part.generation + 1]
    whole = own_bucket.blob("whole")
    with pytest.raises(exceptions.PreconditionFailed):
        whole.compose([part], if_source_generation_match=bad)
    whole.compose([part], if_source_generation_match=good)
    assert whole.download_as_bytes() == b"abc"


def test_compose_gives_no_content_type_of_its_own(own_bucket):
    part = written(own_bucket, "part", b"abc")
    whole = own_bucket.blob("whole")
    whole.compose([part, part])
    assert whole.content_type is None
    assert own_bucket.get_blob("whole").content_type is None
    assert whole.download_as_bytes() == b"abcabc"


def test_a_composed_object_outlives_its_parts(own_bucket):
    data = os.urandom(400_000)
    parts = [written(own_bucket, "a", data[:200_000]), written(own_bucket, "b", data[200_000:])]
    whole = own_bucket.blob("whole")
    whole.compose(parts, delete_source_objects=True)
    assert [blob.name for blob in own_bucket.list_blobs()] == ["whole"]
    assert whole.download_as_bytes() == data


def test_a_copy_has_the_metadata_of_its_source(own_bucket, client_bucket):
    source = written(own_bucket, "a/b", b"abc" * 100_000, metadata={"run": "7"})
    copied = own_bucket.copy_blob(source, client_bucket, "c/d", if_generation_match=0)
    assert (copied.content_type, copied.metadata) == ("text/x", {"run": "7"})
    assert (copied.crc32c, copied.metageneration) == (source.crc32c, 1)
    assert copied.download_as_bytes() == b"abc" * 100_000
    for condition in (
        {"if_generation_match": 0},
        {"if_source_generation_match": source.generation + 1},
        {"if_source_generation_not_match": source.generation},
        {"if_source_metageneration_match": 7},
        {"if_source_metageneration_not_match": 1},
    ):
        with pytest.raises((exceptions.PreconditionFailed, exceptions.NotModified)):
            own_bucket.copy_blob(source, client_bucket, "c/d", **condition)


@pytest.fixture
def client_bucket(own_bucket, box):
    return own_bucket.client.create_bucket(f"{box.name}-other", location="europe-west4")


def test_a_rewrite_from_place_to_place_takes_several_calls(own_bucket, client_bucket, box):
    data = os.urandom(2 * MIB + 1)
    source = written(own_bucket, "x", data)
    path = f"{box.objects}/x/rewriteTo/b/{client_bucket.name}/o/y"
    token, seen = "", []
    for _ in range(3):
        query = f"?maxBytesRewrittenPerCall={MIB}{token}"
        reply = box.request("POST", path + query).json
        seen.append((reply["done"], reply["totalBytesRewritten"], reply["objectSize"]))
        token = f"&rewriteToken={reply.get('rewriteToken')}"
    sizes = [str(MIB), str(2 * MIB), str(len(data))]
    assert seen == [(size == sizes[-1], size, sizes[-1]) for size in sizes]
    assert reply["resource"]["crc32c"] == source.crc32c
    assert client_bucket.blob("y").download_as_bytes() == data
    for query in (f"maxBytesRewrittenPerCall={MIB}&rewriteToken=abc", "maxBytesRewrittenPerCall=5"):
        assert box.request("POST", f"{path}?{query}").status == 400


def test_googles_client_rewrites(own_bucket, client_bucket):
    source = written(own_bucket, "x", os.urandom(MIB))
    target = client_bucket.blob("y")
    token, rewritten, total = target.rewrite(source, if_generation_match=0)
    assert (token, rewritten, total) == (None, MIB, MIB)
    assert target.content_type == "text/x"
    target.update_storage_class("NEARLINE")
    assert client_bucket.get_blob("y").storage_class == "NEARLINE"


def test_a_move_leaves_nothing_behind(own_bucket):
    source = written(own_bucket, "a/b ü", b"abc", metadata={"run": "7"})
    written(own_bucket, "taken", b"old")
    with pytest.raises(exceptions.PreconditionFailed):
        own_bucket.move_blob(source, "taken", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        own_bucket.move_blob(source, "c", if_source_generation_match=source.generation + 1)
    moved = own_bucket.move_blob(source, "c", if_generation_match=0)
    assert (moved.metadata, moved.download_as_bytes()) == ({"run": "7"}, b"abc")
    assert [blob.name for blob in own_bucket.list_blobs()] == ["c", "taken"]
    own_bucket.rename_blob(moved, "d")
    assert [blob.name for blob in own_bucket.list_blobs()] == ["d", "taken"]


def test_what_is_replaced_or_deleted_stays_as_a_generation(versioned):
    first = written(versioned, "x", b"1").generation
    second = written(versioned, "x", b"2").generation
    versioned.blob("x").delete()
    assert list(versioned.list_blobs()) == []
    kept = list(versioned.list_blobs(versions=True))
    assert [blob.generation for blob in kept] == [first, second]
    assert all(blob.time_deleted is not None for blob in kept)
    assert versioned.blob("x", generation=first).download_as_bytes() == b"1"
    restored = versioned.copy_blob(versioned.blob("x"), versioned, source_generation=first)
    assert (restored.download_as_bytes(), restored.generation > second) == (b"1", True)
    versioned.delete_blob("x", generation=first)
    assert versioned.get_blob("x", generation=first) is None
    pages = versioned.list_blobs(versions=True, page_size=1)
    assert [blob.generation for blob in pages] == [second, restored.generation]


@pytest.mark.parametrize(
    ("hold", "named"), [("temporary_hold", "Temporary"), ("event_based_hold", "Event-Based")]
)
def test_a_hold_keeps_an_object(own_bucket, hold, named):
    blob = written(own_bucket, "x")
    setattr(blob, hold, True)
    blob.patch()
    for change in (blob.delete, lambda: blob.upload_from_string(b"y")):
        with pytest.raises(exceptions.Forbidden, match=f"{named} hold"):
            change()
    setattr(blob, hold, False)
    blob.patch()
    blob.delete()
    assert not blob.exists()


def test_listings_by_glob_and_trailing_delimiter(own_bucket):
    for name in ("a/", "a/1.txt", "a/2.bin", "b.txt", "c/d/3.txt"):
        written(own_bucket, name, b"")

    def names(**query):
        found = own_bucket.list_blobs(**query)
        return [blob.name for blob in found], sorted(found.prefixes)

    assert names(match_glob="**.txt")[0] == ["a/1.txt", "b.txt", "c/d/3.txt"]
    assert names(match_glob="a/*")[0] == ["a/", "a/1.txt", "a/2.bin"]
    assert names(delimiter="/") == (["b.txt"], ["a/", "c/"])
    trailing = names(delimiter="/", include_trailing_delimiter=True)
    assert trailing == (["a/", "b.txt"], ["a/", "c/"])
