"""Multipart uploads through Google's transfer manager, and over a kill -9."""

import os

import pytest
from google.cloud.storage import transfer_manager

from client.storage.xml_api.xml_wire import complete, kept_files, put_part, start, texts

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")

MIB = 1024 * 1024
PART = os.urandom(5 * MIB)


@pytest.mark.parametrize("checksum", ["crc32c", "md5", None])
def test_googles_transfer_manager_uploads_in_threads(xml, tmp_path, checksum):
    data = PART * 3 + b"rest"
    (tmp_path / "source").write_bytes(data)
    blob = xml.client().bucket("box").blob("large one/ä%2F")
    blob.metadata, blob.cache_control = {"run": "7"}, "no-store"
    transfer_manager.upload_chunks_concurrently(
        str(tmp_path / "source"),
        blob,
        chunk_size=5 * MIB,
        max_workers=4,
        worker_type=transfer_manager.THREAD,
        checksum=checksum,
        content_type="text/x",
    )
    found = xml.client().bucket("box").get_blob("large one/ä%2F")
    assert (found.metadata, found.cache_control) == ({"run": "7"}, "no-store")
    assert found.content_type == "text/x"
    target = tmp_path / "target"
    transfer_manager.download_chunks_concurrently(
        found, str(target), chunk_size=4 * MIB, worker_type=transfer_manager.THREAD
    )
    assert target.read_bytes() == data


def test_googles_transfer_manager_gives_up_without_a_trace(xml, tmp_path):
    (tmp_path / "source").write_bytes(b"x" * 3000)
    before = kept_files(xml)
    with pytest.raises(Exception, match="400"):
        transfer_manager.upload_chunks_concurrently(
            str(tmp_path / "source"),
            xml.client().bucket("box").blob("small chunks"),
            chunk_size=1000,
            worker_type=transfer_manager.THREAD,
        )
    assert kept_files(xml) == before
    assert texts(xml.request("GET", "/box?uploads&prefix=small"), "Upload/Key") == []


def test_an_upload_goes_on_after_a_kill(killable):
    service = killable.start()
    service.client().create_bucket("box")
    upload = start(service, "durable", x_goog_meta_run="7")
    first = put_part(service, upload, 1, PART)
    last = put_part(service, upload, 2, b"small")
    killable.kill()
    service = killable.start()
    assert texts(service.request("GET", upload), "Part/ETag") == [first, last]
    assert complete(service, upload, (1, first), (2, last)).status == 200
    killable.kill()
    blob = killable.start().client().bucket("box").get_blob("durable")
    assert (blob.download_as_bytes(), blob.metadata) == (PART + b"small", {"run": "7"})
    kept = list((killable.directory / "storage/objects").glob("*/*"))
    assert sum(path.stat().st_size for path in kept) == blob.size
