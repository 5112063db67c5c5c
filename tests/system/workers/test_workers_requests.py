"""The log of storage requests names the worker that sent each of them."""

from pathlib import Path

import clouds
import pytest

PROGRAM = """\
import io
from google.cloud import storage

bucket = storage.Client().bucket("local-bucket")
bucket.blob("a/single").upload_from_string(b"x" * 1000)
chunked = bucket.blob("a/chunked", chunk_size=256 * 1024)
chunked.upload_from_file(io.BytesIO(b"y" * 600_000))
large = bucket.blob("a/large")
large.upload_from_string(b"z" * 3_000_000)
assert len(large.download_as_bytes()) == 3_000_000
list(bucket.list_blobs(prefix="a/"))
bucket.copy_blob(large, bucket, "a/copy")
large.delete()
"""
INSERT, GET, LIST, COPY, DELETE = (
    f"storage.objects.{verb}" for verb in ("insert", "get", "list", "copy", "delete")
)


@pytest.fixture
def logged(isolation: str, tmp_path: Path):
    options = ("--log-requests", "--offline", "--isolation", isolation)
    yield from clouds.serve(tmp_path / "home", *options)


def test_every_request_of_a_worker_is_logged(logged: clouds.Cloud, tmp_path: Path):
    tpuctl = clouds.Runner(logged.home)
    (tmp_path / "program.py").write_text(PROGRAM)
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-8").code == 0
    assert tpuctl("node", "cp", str(tmp_path / "program.py"), "n1:program.py").code == 0
    assert tpuctl("node", "exec", "n1", "--", "python3", "program.py").code == 0
    assert tpuctl("data", "list", "gs://local-bucket/a/").code == 0
    requests = logged.control.requests()
    seen = [
        each
        for each in requests
        if each.method.startswith("storage.objects.") and each.object.startswith("a/")
    ]
    rows = [(each.method, each.object, each.caller, each.status) for each in seen]
    chunks = [row for row in rows if row[1] == "a/chunked"]
    assert chunks == [
        (INSERT, "a/chunked", "n1/0", 200),
        (INSERT, "a/chunked", "n1/0", 308),
        (INSERT, "a/chunked", "n1/0", 308),
        (INSERT, "a/chunked", "n1/0", 200),
    ]
    assert [row for row in rows if row[1] != "a/chunked"] == [
        (INSERT, "a/single", "n1/0", 200),
        (INSERT, "a/large", "n1/0", 200),
        (GET, "a/large", "n1/0", 200),
        (LIST, "a/", "n1/0", 200),
        (COPY, "a/copy", "n1/0", 200),
        (DELETE, "a/large", "n1/0", 204),
        (LIST, "a/", "", 200),
    ]
    first, *others = (each for each in seen if each.object == "a/chunked")
    assert {each.upload for each in others} == {first.number}
    assert sum(each.body_bytes for each in others) == 600_000
    assert [each.body_bytes for each in seen if each.method == GET] == [3_000_000]
    assert all(each.generation for each in seen if each.object == "a/copy")
    assert logged.control.requests(after=requests[-1].number) == ()
