"""kill -9: everything acknowledged is there, nothing half-written shows, it starts again."""

import contextlib
import hashlib
import os
import threading

import pytest
import requests
from google.api_core import exceptions

pytest_plugins = ("storage_fixtures",)

SIZES = (0, 1000, 128 * 1024, 400_000, 2_000_000)


def upload(client, number, acknowledged):
    """Write objects that name their content, until the server is gone."""
    with contextlib.suppress(requests.ConnectionError, exceptions.GoogleAPIError):
        for turn in range(10_000):
            data = os.urandom(SIZES[turn % len(SIZES)])
            name = f"{number}/{turn % 20}"
            blob = client.bucket("box").blob(name)
            blob.metadata = {"sha": hashlib.sha256(data).hexdigest()}
            blob.upload_from_string(data, retry=None)
            acknowledged[name] = blob.generation


def check(client, acknowledged):
    """Every acknowledged object, or a later one of its writer, is there and whole."""
    found = {blob.name: blob for blob in client.list_blobs("box")}
    assert found.keys() >= acknowledged.keys()
    for name, blob in found.items():
        assert blob.generation >= acknowledged.get(name, 0)
        data = blob.download_as_bytes()
        assert hashlib.sha256(data).hexdigest() == blob.metadata["sha"]
        assert len(data) == blob.size


def test_four_writers_and_three_kills(killable):
    acknowledged = {}
    killable.start().client().create_bucket("box")
    for _ in range(3):
        client = killable.services[-1].client()
        before = len(acknowledged)
        writers = [
            threading.Thread(target=upload, args=(client, number, acknowledged))
            for number in range(4)
        ]
        for writer in writers:
            writer.start()
        while len(acknowledged) < before + 15 and any(writer.is_alive() for writer in writers):
            writers[0].join(0.005)
        killable.kill()
        for writer in writers:
            writer.join()
        check(killable.start().client(), acknowledged)
    kept = {path.name for path in (killable.directory / "storage").glob("objects/*/*")}
    assert list((killable.directory / "storage" / "incoming").iterdir()) == []
    big = sum(
        size > 128 * 1024
        for blob in killable.services[-1].client().list_blobs("box")
        for size in (blob.size,)
    )
    assert len(kept) == big


def test_a_resumable_upload_goes_on_after_a_kill(killable):
    data = os.urandom(1_000_000)
    service = killable.start()
    service.client().create_bucket("box")
    path = "/upload/storage/v1/b/box/o?uploadType=resumable&name=x&ifGenerationMatch=0"
    start = service.request("POST", path, b'{"metadata": {"run": "7"}}')
    session = start.headers["Location"].removeprefix(service.url)
    service.request("PUT", session, data[:600_000], Content_Range="bytes 0-599999/*")
    killable.kill()
    service = killable.start()
    status = service.request("PUT", session, Content_Range="bytes */*")
    assert (status.status, status.headers["Range"]) == (308, "bytes=0-599999")
    rest = service.request(
        "PUT", session, data[600_000:], Content_Range="bytes 600000-999999/1000000"
    )
    assert rest.status == 200
    blob = service.client().bucket("box").get_blob("x")
    assert (blob.download_as_bytes(), blob.metadata) == (data, {"run": "7"})
    killable.kill()
    again = killable.start().request("PUT", session, Content_Range="bytes */1000000")
    assert again.status == 200
    assert b'"size": "1000000"' in again.body


def test_generations_go_on_growing(killable):
    client = killable.start().client()
    blob = client.create_bucket("box").blob("x")
    seen = []
    for _ in range(3):
        blob.upload_from_string(b"x")
        seen.append(blob.generation)
    killable.kill()
    blob = killable.start().client().bucket("box").blob("x")
    blob.upload_from_string(b"x")
    seen.append(blob.generation)
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("leftover", ["incoming/cafe", "objects/ca/cafe"])
def test_leftovers_are_swept(killable, leftover):
    path = killable.directory / "storage" / leftover
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    killable.start()
    assert not path.exists()
