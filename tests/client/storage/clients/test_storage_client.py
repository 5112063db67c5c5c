"""Google's own storage client, unmodified, against the service."""

import base64
import hashlib
import io
import os
import threading

import pytest
from google.api_core import exceptions

pytest_plugins = ("client.storage.storage_fixtures",)

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [0, 1, 128 * 1024, 128 * 1024 + 1, 9 * MIB])
def test_bytes_come_back_as_they_went(own_bucket, size):
    data = os.urandom(size)
    own_bucket.blob("data").upload_from_string(data)
    blob = own_bucket.get_blob("data")
    assert blob.size == size
    assert blob.download_as_bytes() == data
    assert blob.download_as_bytes(checksum="crc32c") == data


def test_a_resumable_upload_in_chunks_comes_back_whole(own_bucket, tmp_path):
    data = os.urandom(9 * MIB + 1)
    source = tmp_path / "source"
    source.write_bytes(data)
    blob = own_bucket.blob("large", chunk_size=1 * MIB)
    blob.metadata = {"run": "7"}
    blob.upload_from_filename(source, if_generation_match=0, content_type="text/x")
    assert blob.metadata == {"run": "7"}
    assert blob.content_type == "text/x"
    assert blob.md5_hash == base64.b64encode(hashlib.md5(data).digest()).decode()
    assert own_bucket.get_blob("large").download_as_bytes() == data


def test_a_resumable_upload_of_unknown_length_may_be_empty(own_bucket):
    with own_bucket.blob("stream", chunk_size=256 * 1024).open("wb") as file:
        pass
    assert own_bucket.get_blob("stream").size == 0
    with own_bucket.blob("stream", chunk_size=256 * 1024).open("wb") as file:
        file.write(b"x" * 300_000)
    assert own_bucket.get_blob("stream").download_as_bytes() == b"x" * 300_000


@pytest.mark.parametrize("size", [1000, 300_000])
def test_ranges(own_bucket, size):
    data = os.urandom(size)
    blob = own_bucket.blob("data")
    blob.upload_from_string(data)
    assert blob.download_as_bytes(start=10, end=19) == data[10:20]
    assert blob.download_as_bytes(start=990) == data[990:]
    assert blob.download_as_bytes(start=-7) == data[-7:]
    assert blob.download_as_bytes(end=10 * size) == data
    with pytest.raises(exceptions.RequestRangeNotSatisfiable):
        blob.download_as_bytes(start=size)
    chunked = own_bucket.blob("data", chunk_size=256 * 1024)
    assert chunked.download_as_bytes() == data


def test_a_download_tells_the_client_what_it_got(own_bucket):
    blob = own_bucket.blob("a/b")
    blob.cache_control = "no-store"
    blob.upload_from_string(b"abc", content_type="text/plain")
    seen = own_bucket.blob("a/b")
    seen.download_as_bytes()
    names = ("generation", "metageneration", "etag", "crc32c", "md5_hash", "content_type")
    assert [str(getattr(seen, name)) for name in names] == [
        str(getattr(blob, name)) for name in names
    ]
    assert seen.cache_control == "no-store"
    assert (blob.crc32c, blob.md5_hash) == ("Nks/tw==", "kAFQmDzST7DWlj99KOF/cg==")


def test_an_upload_needs_the_generation_it_saw(own_bucket):
    blob = own_bucket.blob("once")
    blob.upload_from_string(b"1", if_generation_match=0)
    first = blob.generation
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"2", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"2", if_generation_match=first + 1)
    with pytest.raises(exceptions.NotModified):
        blob.upload_from_string(b"2", if_generation_not_match=first)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"2", if_metageneration_match=2)
    assert blob.download_as_bytes() == b"1"
    blob.upload_from_string(b"2", if_generation_match=first, if_metageneration_match=1)
    assert blob.generation > first
    assert own_bucket.blob("once").download_as_bytes() == b"2"


def test_a_resumable_upload_needs_the_generation_too(own_bucket):
    blob = own_bucket.blob("once", chunk_size=256 * 1024)
    blob.upload_from_string(b"1")
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_file(io.BytesIO(b"2" * 300_000), if_generation_match=0)
    assert blob.download_as_bytes() == b"1"


def test_reads_with_preconditions(own_bucket):
    blob = own_bucket.blob("x")
    blob.upload_from_string(b"x")
    now = blob.generation
    blob.reload(if_generation_match=now, if_metageneration_match=1)
    assert blob.download_as_bytes(if_generation_match=now) == b"x"
    for read in (blob.reload, blob.download_as_bytes):
        with pytest.raises(exceptions.PreconditionFailed):
            read(if_generation_match=now + 1)
        with pytest.raises(exceptions.PreconditionFailed):
            read(if_metageneration_match=9)
        with pytest.raises(exceptions.NotModified):
            read(if_generation_not_match=now)
        with pytest.raises(exceptions.NotModified):
            read(if_metageneration_not_match=1)
        with pytest.raises(exceptions.NotModified):
            read(if_etag_not_match=blob.etag)


def test_a_generation_selects_the_live_one_or_nothing(own_bucket):
    blob = own_bucket.blob("x")
    blob.upload_from_string(b"old")
    old = blob.generation
    blob.upload_from_string(b"new")
    assert own_bucket.get_blob("x", generation=blob.generation).generation == blob.generation
    assert own_bucket.get_blob("x", generation=old) is None
    with pytest.raises(exceptions.NotFound):
        own_bucket.blob("x", generation=old).download_as_bytes()
    with pytest.raises(exceptions.NotFound):
        own_bucket.delete_blob("x", generation=old)


def test_metadata_changes_one_key_at_a_time(own_bucket):
    blob = own_bucket.blob("x")
    blob.metadata = {"keep": "1", "drop": "2"}
    blob.upload_from_string(b"x", content_type="text/plain")
    blob.metadata = {"drop": None, "new": "3"}
    blob.content_language = "de"
    blob.patch(if_metageneration_match=1)
    seen = own_bucket.get_blob("x")
    assert seen.metadata == {"keep": "1", "new": "3"}
    assert (seen.content_language, seen.content_type, seen.metageneration) == (
        "de",
        "text/plain",
        2,
    )
    assert seen.generation == blob.generation
    with pytest.raises(exceptions.PreconditionFailed):
        blob.patch(if_metageneration_match=1)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.patch(if_generation_match=1)
    seen.metadata = {"only": "this"}
    seen.update(if_generation_match=seen.generation)
    assert own_bucket.get_blob("x").metadata == {"only": "this"}
    assert own_bucket.blob("x").download_as_bytes() == b"x"


def test_deletes_with_preconditions(own_bucket):
    blob = own_bucket.blob("x")
    blob.upload_from_string(b"x")
    with pytest.raises(exceptions.PreconditionFailed):
        blob.delete(if_generation_match=blob.generation + 1)
    with pytest.raises(exceptions.NotModified):
        blob.delete(if_metageneration_not_match=1)
    blob.delete(if_generation_match=blob.generation)
    assert not blob.exists()
    with pytest.raises(exceptions.NotFound):
        blob.delete(if_generation_match=blob.generation)


def test_listing_pages_and_folds(own_bucket):
    for name in ("a", "a/1", "a/2", "b/c/1", "b/d", "é", "\U0001f600"):
        own_bucket.blob(name).upload_from_string(name)

    def names(**query):
        pages = own_bucket.list_blobs(**query)
        items = [blob.name for page in pages.pages for blob in page]
        return items, sorted(pages.prefixes)

    assert names() == (["a", "a/1", "a/2", "b/c/1", "b/d", "é", "\U0001f600"], [])
    assert names(delimiter="/") == (["a", "é", "\U0001f600"], ["a/", "b/"])
    assert names(delimiter="/", page_size=1) == (["a", "é", "\U0001f600"], ["a/", "b/"])
    assert names(prefix="b/", delimiter="/") == (["b/d"], ["b/c/"])
    assert names(prefix="a", page_size=2) == (["a", "a/1", "a/2"], [])
    assert names(start_offset="a/2", end_offset="b/d") == (["a/2", "b/c/1"], [])
    assert names(prefix="nothing") == ([], [])
    assert names(max_results=2)[0] == ["a", "a/1"]


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/absolute",
        "a/../../b",
        "..\\x",
        "%2e%2e/x",
        "%FF",
        "trailing/",
        "-leading",
        "with space + plus",
        "a?b#c&d=e;f",
        "*[x]",
        "100%",
        "é/\U0001f600",
        "nul\x00tab\t",
        "x" * 1024,
    ],
)
def test_any_name_is_only_a_name(module_storage, own_bucket, name):
    def files():
        return {path for path in module_storage.directory.rglob("*") if path.is_file()}

    around, before = {*module_storage.directory.parent.iterdir()}, files()
    blob = own_bucket.blob(name)
    blob.upload_from_string(b"y" * 200_000, if_generation_match=0)
    assert [found.name for found in own_bucket.list_blobs()] == [name]
    assert own_bucket.get_blob(name).download_as_bytes() == b"y" * 200_000
    (body,) = files() - before
    assert len(body.name) == 32
    assert {*module_storage.directory.parent.iterdir()} == around
    blob.delete()
    assert list(own_bucket.list_blobs()) == []


@pytest.mark.parametrize("name", [".", "..", "line\nfeed", "x" * 1025])
def test_names_that_google_refuses(own_bucket, name):
    with pytest.raises(exceptions.BadRequest):
        own_bucket.blob(name).upload_from_string(b"x")


def test_one_of_sixteen_creates(own_bucket):
    start = threading.Barrier(16)
    outcomes = []

    def create(number: int) -> None:
        blob = own_bucket.blob("lease")
        start.wait()
        try:
            blob.upload_from_string(str(number), if_generation_match=0)
            outcomes.append(number)
        except exceptions.PreconditionFailed:
            outcomes.append(None)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [number for number in outcomes if number is not None]
    assert len(outcomes) == 16
    assert [str(number).encode() for number in winners] == [
        own_bucket.blob("lease").download_as_bytes()
    ]
