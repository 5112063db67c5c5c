"""kill -9: everything acknowledged is there, nothing half-written shows, it starts again."""

import asyncio
import base64
import contextlib
import hashlib
import http.client
import json
import os
import socket
import threading
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import google_crc32c
import requests
from client.storage.grpc_api.grpc_fixtures import ZONAL, grpc_client
from client.storage.storage_fixtures import HIERARCHICAL
from google.api_core import exceptions
from google.cloud.storage.asyncio.async_appendable_object_writer import (
    AsyncAppendableObjectWriter,
)

pytest_plugins = ("client.storage.storage_fixtures",)

SIZES = (0, 1000, 128 * 1024, 400_000, 2_000_000)
KILLS = 2
LIMIT_BYTES = 600_000
LEFTOVERS = ("incoming/cafe", "objects/ca/cafe")


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


def test_four_writers_and_two_kills(killable):
    acknowledged = {}
    leftovers = [killable.directory / "storage" / name for name in LEFTOVERS]
    for path in leftovers:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"half")
    killable.start().client().create_bucket("box")
    assert not any(path.exists() for path in leftovers)
    for _ in range(KILLS):
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
    service = killable.start()
    again = service.request("PUT", session, Content_Range="bytes */1000000")
    assert (again.status, json.loads(again.body)["size"]) == (200, "1000000")
    later = service.client().bucket("box").blob("x")
    later.upload_from_string(b"x")
    assert later.generation > blob.generation


def test_an_encrypted_upload_goes_on_after_a_kill_within_a_request(killable):
    """Its key comes with the first request, as Google's clients for Go and Node.js send it."""
    data, key = os.urandom(3_000_000), os.urandom(32)
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode()
    text = base64.b64encode(key).decode()
    headers = {
        "X_Goog_Encryption_Algorithm": "AES256",
        "X_Goog_Encryption_Key": text,
        "X_Goog_Encryption_Key_Sha256": digest,
    }
    service = killable.start()
    service.client().create_bucket("box")
    path = "/upload/storage/v1/b/box/o?uploadType=resumable&name=x"
    start = service.request("POST", path, b"{}", **headers)
    session = start.headers["Location"].removeprefix(service.url)
    service.request("PUT", session, data[:600_000], Content_Range="bytes 0-599999/*")
    head = (
        f"PUT {session} HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\n"
        f"Content-Length: 2400000\r\nContent-Range: bytes 600000-2999999/3000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(head.encode() + data[600_000:1_500_000])
        killable.kill()
    service = killable.start()
    status = service.request("PUT", session, Content_Range="bytes */*")
    assert (status.status, status.headers["Range"]) == (308, "bytes=0-599999")
    crc32c = base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()
    rest = service.request(
        "PUT",
        session,
        data[600_000:],
        Content_Range="bytes 600000-2999999/3000000",
        X_Goog_Hash=f"crc32c={crc32c}",
        **headers,
    )
    assert rest.status == 200
    killable.kill()
    blob = killable.start().client().bucket("box").get_blob("x", encryption_key=key)
    assert blob.download_as_bytes() == data
    assert blob.md5_hash == base64.b64encode(hashlib.md5(data).digest()).decode()
    files = [path for path in killable.directory.rglob("*") if path.is_file()]
    kept = b"".join(path.read_bytes() for path in files)
    assert [path for path in files if path.parent.name == "incoming"] == []
    assert [secret for secret in (key, text.encode(), data[:64]) if secret in kept] == []
    assert digest.encode() in kept


def test_one_of_sixteen_connections_creates_an_object(storage_service, bucket):
    created, refused = [], []

    def create(number):
        path = "/upload/storage/v1/b/box/o?uploadType=media&name=a&ifGenerationMatch=0"
        data = bytes([number]) * SIZES[number % len(SIZES)]
        ready.wait()
        status = storage_service.request("POST", path, data).status
        (created if status == 200 else refused).append((status, data))

    ready = threading.Barrier(16)
    creators = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for creator in creators:
        creator.start()
    for creator in creators:
        creator.join()
    ((_, data),) = created
    assert [status for status, _ in refused] == [412] * 15
    assert bucket.blob("a").download_as_bytes() == data
    kept = list((storage_service.directory / "storage").glob("objects/*/*"))
    assert len(kept) == (len(data) > SIZES[2])


@contextlib.contextmanager
def full_disk():
    """No file of this process, which serves too, grows beyond a limit."""
    soft, hard = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (LIMIT_BYTES, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_is_told_and_keeps_nothing(storage_service, bucket):
    path = "/upload/storage/v1/b/box/o?uploadType={}&name=a"
    data = bytes(LIMIT_BYTES + 1)
    start = storage_service.request("POST", path.format("resumable"), b"{}")
    session = start.headers["Location"].removeprefix(storage_service.url)
    with full_disk():
        refused = storage_service.request("POST", path.format("media"), data)
        assert (refused.status, reason(refused)) == (507, "insufficientStorage")
        assert reason(storage_service.request("PUT", session, data)) == "insufficientStorage"
    assert list(bucket.list_blobs()) == []
    kept = storage_service.directory / "storage"
    assert [file.name for file in (kept / "incoming").iterdir()] == [session.rpartition("=")[2]]
    assert list(kept.glob("objects/*/*")) == []
    assert storage_service.request("PUT", session, data).status == 200
    assert bucket.blob("a").download_as_bytes() == data


def reason(reply):
    return json.loads(reply.body)["error"]["errors"][0]["reason"]


OBJECTS_IN_FOLDER = 60


def test_a_folder_has_its_old_name_or_its_new_one_after_a_kill(killable):
    service = killable.start()
    body = json.dumps({"name": "box", **HIERARCHICAL}).encode()
    assert service.request("POST", "/storage/v1/b?project=p", body).status == 200
    upload = "/upload/storage/v1/b/box/o?uploadType=media&name="
    names = {f"d{number % 7}/{number}" for number in range(OBJECTS_IN_FOLDER)}
    for name in names:
        assert service.request("POST", f"{upload}at/{name}", b"1").status == 200
    at = "at"
    for turn in (1, 2):
        renames = threading.Thread(target=rename_until_gone, args=(service, at, turn))
        renames.start()
        renames.join(0.05 * turn)
        killable.kill()
        renames.join()
        service = killable.start()
        listed = [blob.name for blob in service.client().list_blobs("box")]
        (at,) = {name.partition("/")[0] for name in listed}
        assert {name.partition("/")[2] for name in listed} == names
        folders = service.request("GET", "/storage/v1/b/box/folders").json["items"]
        assert {item["name"] for item in folders} == {f"{at}/"} | {
            f"{at}/d{number}/" for number in range(7)
        }


def rename_until_gone(service, name, turn):
    """Rename a folder again and again, until the server is gone."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        for number in range(10_000):
            target = f"at-{turn}-{number}"
            path = f"/storage/v1/b/box/folders/{name}%2F/renameTo/folders/{target}%2F"
            assert service.request("POST", path).status == 200
            name = target


def test_what_was_flushed_is_there_after_a_kill(killable):
    data = os.urandom(700_000)
    service = killable.start("grpc")
    body = json.dumps({"name": "box", **ZONAL}).encode()
    assert service.request("POST", "/storage/v1/b?project=p", body).status == 200

    async def append(start, end):
        """Flush a part; the service is killed before the next one is flushed. The generation."""
        client = grpc_client(service)
        writer = AsyncAppendableObjectWriter(client, "box", "x", generation=generation)
        await writer.open()
        assert writer.offset == start
        await writer.append(data[start:end])
        assert await writer.flush() == end
        await writer.append(b"lost")
        killable.kill()
        return writer.generation

    generation = None
    for start, end in ((0, 1000), (1000, 300_000), (300_000, 700_000)):
        generation = asyncio.run(append(start, end))
        service = killable.start("grpc")
        blob = service.client().bucket("box").blob("x")
        assert blob.download_as_bytes() == data[:end]
        assert blob.generation == generation
    kept = {path.name for path in (killable.directory / "storage").glob("objects/*/*")}
    assert len(kept) == 3
