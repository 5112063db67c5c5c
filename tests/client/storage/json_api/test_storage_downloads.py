"""Downloads byte by byte: ranges, conditions, pieces, and what Google unpacks on the way out."""

import gzip
import json
import os

import pytest

pytest_plugins = ("client.storage.storage_fixtures",)

MIB = 1024 * 1024
WHOLE = b"0123456789"


@pytest.fixture
def digits(box):
    box.upload("x", WHOLE)
    return box


@pytest.mark.parametrize(
    ("header", "status", "body", "content_range"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=0-", 206, WHOLE, "bytes 0-9/10"),
        ("bytes=8-", 206, b"89", "bytes 8-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, WHOLE, "bytes 0-9/10"),
        ("bytes=4-2", 200, WHOLE, None),
        ("bytes=1-2,4-5", 200, WHOLE, None),
        ("lines=1-2", 200, WHOLE, None),
    ],
)
def test_range_forms(digits, header, status, body, content_range):
    reply = digits.request("GET", f"{digits.objects}/x?alt=media", Range=header)
    assert (reply.status, reply.headers["Content-Range"]) == (status, content_range)
    assert reply.body == body
    head = digits.request("HEAD", f"{digits.objects}/x?alt=media", Range=header)
    assert (head.status, head.headers["Content-Range"]) == (status, content_range)
    assert (head.headers["Content-Length"], head.body) == (str(len(body)), b"")


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=-0", "bytes=99-100"])
def test_a_range_behind_the_end(digits, header):
    reply = digits.request("GET", f"{digits.objects}/x?alt=media", Range=header)
    assert (reply.status, reply.headers["Content-Range"]) == (416, "bytes */10")
    assert reply.message == "Request range not satisfiable"


@pytest.mark.parametrize("path", ["{objects}/none?alt=media", "/download{objects}/none"])
def test_the_refusal_of_a_download_is_its_message_alone(digits, path):
    reply = digits.request("GET", path.format(objects=digits.objects))
    assert (reply.status, reply.headers["Content-Type"]) == (404, "text/html; charset=UTF-8")
    assert reply.message == f"No such object: {digits.name}/none"
    assert digits.request("GET", f"{digits.objects}/none").reason == "notFound"


def test_an_empty_object_has_no_range(box):
    box.upload("x", b"")
    assert box.request("GET", f"{box.objects}/x?alt=media", Range="bytes=0-").status == 416
    assert box.media("x") == b""


@pytest.mark.parametrize("path", ["{objects}/x?alt=media&", "/download{objects}/x?"])
def test_every_path_of_a_download(digits, path):
    path = path.format(objects=digits.objects)
    etag = digits.request("GET", path).headers["ETag"]
    assert digits.request("GET", path, If_Match=etag).body == WHOLE
    assert digits.request("GET", path, If_Match='"other"').status == 412
    unmodified = digits.request("GET", path, If_None_Match=f'"{etag}"')
    assert (unmodified.status, unmodified.body) == (304, b"")
    assert digits.request("GET", f"{path}ifGenerationNotMatch=1").body == WHOLE
    assert digits.request("GET", f"{path}ifGenerationMatch=1").status == 412


def test_the_bytes_of_a_composed_object_are_those_of_its_parts(box):
    parts = [os.urandom(size) for size in (300_000, 10, 500_000)]
    for number, data in enumerate(parts):
        box.upload(f"part{number}", data)
    sources = [{"name": f"part{number}"} for number in range(len(parts))]
    body = json.dumps({"sourceObjects": sources}).encode()
    composed = json.loads(box.request("POST", f"{box.objects}/whole/compose", body).body)
    assert (composed["componentCount"], composed["size"]) == (3, "800010")
    whole = b"".join(parts)
    assert box.media("whole") == whole
    for start, end in ((0, 1), (299_999, 300_011), (250_000, 700_000), (800_009, 800_010)):
        reply = box.request(
            "GET", f"{box.objects}/whole?alt=media", Range=f"bytes={start}-{end - 1}"
        )
        assert reply.body == whole[start:end]


def put_gzip(box, data, **fields):
    resource = {"name": "z", "contentEncoding": "gzip", "contentType": "text/plain", **fields}
    lines = ["--B", "Content-Type: application/json", "", json.dumps(resource)]
    head = "\r\n".join([*lines, "--B", "Content-Type: text/plain", "", ""]).encode()
    path = f"{box.uploads}?uploadType=multipart"
    content_type = "multipart/related; boundary=B"
    reply = box.request("POST", path, head + data + b"\r\n--B--", Content_Type=content_type)
    assert reply.status == 200


@pytest.mark.parametrize("plain", [b"", b"hello", os.urandom(1000) * 3000])
def test_gzip_is_unpacked_for_who_does_not_ask_for_it(box, plain):
    packed = gzip.compress(plain[: len(plain) // 2]) + gzip.compress(plain[len(plain) // 2 :])
    put_gzip(box, packed)
    path = f"{box.objects}/z?alt=media"
    reply = box.request("GET", path, Range="bytes=1-2")
    assert (reply.status, reply.body) == (200, plain)
    seen = {name: reply.headers[name] for name in reply.headers}
    assert "Content-Encoding" not in seen
    assert "Content-Length" not in seen
    assert seen["Transfer-Encoding"] == "chunked"
    assert seen["Warning"] == "214 UploadServer gunzipped"
    assert seen["X-GUploader-Response-Body-Transformations"] == "gunzipped"
    assert seen["X-Goog-Stored-Content-Encoding"] == "gzip"
    assert seen["X-Goog-Stored-Content-Length"] == str(len(packed))
    head = box.request("HEAD", path)
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [({}, "gzip"), ({}, "br, GZIP;q=0.5"), ({"cacheControl": "no-transform"}, "identity")],
)
def test_gzip_goes_out_as_it_is_for_who_asks(box, fields, accepted):
    packed = gzip.compress(b"hello")
    put_gzip(box, packed, **fields)
    path = f"{box.objects}/z?alt=media"
    reply = box.request("GET", path, Accept_Encoding=accepted)
    assert (reply.status, reply.body) == (200, packed)
    assert reply.headers["Content-Encoding"] == "gzip"
    part = box.request("GET", path, Accept_Encoding=accepted, Range="bytes=2-4")
    assert (part.status, part.body) == (206, packed[2:5])


def test_what_only_says_that_it_is_gzip_goes_out_as_it_is(box):
    put_gzip(box, b"hello")
    assert box.media("z") == b"hello"


def test_broken_gzip_breaks_the_connection_off(box):
    put_gzip(box, gzip.compress(os.urandom(MIB))[:-100])
    head = f"GET {box.objects}/z?alt=media HTTP/1.1\r\nHost: 127.0.0.1:{box.service.port}\r\n"
    reply = box.service.raw_until_broken(head.encode() + b"\r\n")
    assert reply.startswith(b"HTTP/1.1 200 OK")
    assert not reply.endswith(b"\r\n0\r\n\r\n")


def test_a_gzip_bomb_goes_out_piece_by_piece(box):
    put_gzip(box, gzip.compress(bytes(64 * MIB)))
    assert len(box.media("z")) == 64 * MIB
