"""obstore (the object_store crate), unmodified, against the XML side of the service."""

import json
import os
import re

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import GCSStore

from client.storage.clients.storage_programs import AWKWARD, LARGE_BYTES

pytest_plugins = ("client.storage.clients.storage_programs",)


@pytest.fixture
def store(shared_storage, request) -> GCSStore:
    name = re.sub("[^a-z0-9]+", "-", request.node.name)[:50] + "-box"
    shared_storage.client().create_bucket(name)
    account = {"gcs_base_url": shared_storage.url, "disable_oauth": True}
    unused = {"client_email": "", "private_key": "", "private_key_id": ""}
    return GCSStore(
        name,
        config={"service_account_key": json.dumps(account | unused), "skip_signature": True},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


@pytest.mark.parametrize("name", AWKWARD[:3])
def test_every_name_comes_back(store, name):
    obstore.put(store, name, b"hello")
    assert obstore.get(store, name).bytes().to_bytes() == b"hello"
    assert [each["path"] for page in obstore.list(store) for each in page] == [name]
    obstore.delete(store, name)
    with pytest.raises(FileNotFoundError):
        obstore.head(store, name)


def test_a_large_object_goes_in_parts_and_comes_back_in_ranges(store):
    body = os.urandom(LARGE_BYTES)
    obstore.put(store, "large", body, chunk_size=5 * 1024 * 1024)
    assert obstore.head(store, "large")["size"] == LARGE_BYTES
    assert obstore.get(store, "large").bytes().to_bytes() == body
    ranges = obstore.get_ranges(store, "large", starts=[0, 6_000_000], lengths=[3, 4])
    assert [each.to_bytes() for each in ranges] == [body[:3], body[6_000_000:6_000_004]]


def test_an_empty_object(store):
    obstore.put(store, "empty", b"")
    assert obstore.get(store, "empty").bytes().to_bytes() == b""


def test_a_stream_is_written_in_parts(store):
    with obstore.open_writer(store, "stream", buffer_size=5 * 1024 * 1024) as writer:
        for _ in range(3):
            writer.write(b"x" * 3_000_000)
    assert obstore.head(store, "stream")["size"] == 9_000_000


def test_what_is_there_is_not_made_again(store):
    obstore.put(store, "once", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "once", b"2", mode="create")
    assert obstore.get(store, "once").bytes().to_bytes() == b"1"


def test_an_update_needs_the_version_it_saw(store):
    seen = obstore.put(store, "x", b"1")
    obstore.put(store, "x", b"2", mode={"version": seen["version"]})
    with pytest.raises(PreconditionError):
        obstore.put(store, "x", b"3", mode={"version": seen["version"]})
    assert obstore.get(store, "x").bytes().to_bytes() == b"2"


def test_attributes_come_back(store):
    attributes = {"Content-Type": "text/x", "Cache-Control": "no-store", "run": "7"}
    obstore.put(store, "x", b"1", attributes=attributes)
    assert obstore.get(store, "x").attributes == attributes


def test_listing_folds_and_starts_where_it_is_told(store):
    for name in ("a/1", "a/2", "b/1", "c"):
        obstore.put(store, name, b"x")
    folded = obstore.list_with_delimiter(store)
    assert folded["common_prefixes"] == ["a", "b"]
    assert [each["path"] for each in folded["objects"]] == ["c"]
    after = obstore.list(store, offset="a/1").collect()
    assert [each["path"] for each in after] == ["a/2", "b/1", "c"]
    assert [each["path"] for each in obstore.list(store, "a").collect()] == ["a/1", "a/2"]


def test_copies_and_renames(store):
    obstore.put(store, "a #1", b"one")
    obstore.copy(store, "a #1", "d/ü")
    with pytest.raises(AlreadyExistsError):
        obstore.copy(store, "a #1", "d/ü", overwrite=False)
    obstore.rename(store, "a #1", "e+")
    assert [each["path"] for each in obstore.list(store).collect()] == ["d/ü", "e+"]
    assert obstore.get(store, "e+").bytes().to_bytes() == b"one"


def test_a_read_may_be_conditional(store):
    tag = obstore.put(store, "x", b"1")["e_tag"]
    assert obstore.get(store, "x", options={"if_match": tag}).bytes().to_bytes() == b"1"
    with pytest.raises(PreconditionError):
        obstore.get(store, "x", options={"if_match": '"other"'})
    with pytest.raises(obstore.exceptions.NotModifiedError):
        obstore.get(store, "x", options={"if_none_match": tag})


def test_many_are_deleted(store):
    names = [f"d/{number}" for number in range(5)]
    for name in names:
        obstore.put(store, name, b"x")
    obstore.delete(store, names)
    assert obstore.list(store).collect() == []
