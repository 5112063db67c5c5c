"""What goes over the wire byte by byte: framing, resumable uploads, headers, errors."""

import json
import os
import re
import socket
import threading
import time

import pytest

pytest_plugins = ("storage_fixtures",)

UPLOAD = "/upload/storage/v1/b/box/o"
OBJECT = "/storage/v1/b/box/o"


@pytest.fixture
def box(storage_service):
    storage_service.request("POST", "/storage/v1/b?project=p", b'{"name": "box"}')
    return storage_service


def media(box, name):
    return box.request("GET", f"{OBJECT}/{name}?alt=media").body


def reason(reply):
    error = json.loads(reply.body)["error"]
    assert error["code"] == reply.status
    assert error["errors"][0].keys() == {"reason", "domain", "message"}
    assert error["errors"][0]["message"] == error["message"]
    return error["errors"][0]["reason"]


def multipart(box, newline, data, resource='{"name": "x"}', tail=None, **headers):
    lines = ["--==B==", "Content-Type: application/json; charset=UTF-8", "", resource]
    lines += ["--==B==", "Content-Type: text/plain", "", ""]
    head = newline.join(lines).encode()
    tail = newline.encode() + b"--==B==--" if tail is None else tail
    content_type = 'multipart/related; boundary="==B=="'
    path = f"{UPLOAD}?uploadType=multipart"
    return box.request("POST", path, head + data + tail, Content_Type=content_type, **headers)


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"ends in\r",
        b"ends in\n",
        b"ends in\r\n",
        b"\r\n\r\n",
        b"--==B==--",
        b"x--==B==\r\n",
        b"\r\n--==B==x",
        bytes(range(256)) * 2000,
    ],
)
def test_multipart_media_is_binary_safe(box, newline, data):
    reply = multipart(box, newline, data)
    assert reply.status == 200
    assert json.loads(reply.body)["contentType"] == "text/plain"
    assert media(box, "x") == data


@pytest.mark.parametrize("tail", [b"", b"\r\n--==B==", b"\r\n--==B==\r\n\r\nthird\r\n--==B==--"])
def test_a_broken_multipart_body_makes_no_object(box, tail):
    reply = multipart(box, "\r\n", b"data", tail=tail)
    assert (reply.status, reason(reply)) == (400, "invalid")
    assert box.request("GET", f"{OBJECT}/x").status == 404


def test_given_checksums_are_checked(box):
    good, bad = "crc32c=Nks/tw==,md5=kAFQmDzST7DWlj99KOF/cg==", "crc32c=AAAAAA=="
    media_path = f"{UPLOAD}?uploadType=media&name=x"
    for resource in ('{"name":"x","crc32c":"AAAAAA=="}', '{"name":"x","md5Hash":"AAAA"}'):
        assert multipart(box, "\n", b"abc", resource).status == 400
    assert multipart(box, "\n", b"abc", X_Goog_Hash=bad).status == 400
    assert box.request("POST", media_path, b"abc", X_Goog_Hash=bad).status == 400
    assert box.request("GET", f"{OBJECT}/x").status == 404
    assert multipart(box, "\n", b"abc", '{"name":"x","crc32c":"Nks/tw=="}').status == 200
    assert box.request("POST", media_path, b"abc", X_Goog_Hash=good).status == 200


def test_simple_upload_and_headers_of_the_download(box):
    reply = box.request(
        "POST", f"{UPLOAD}?uploadType=media&name=a%2Fb", b"abc", Content_Type="text/plain"
    )
    resource = json.loads(reply.body)
    assert resource["name"] == "a/b"
    assert resource["id"] == f"box/a/b/{resource['generation']}"
    assert resource["mediaLink"] == (
        f"{box.url}/download/storage/v1/b/box/o/a%2Fb?generation={resource['generation']}&alt=media"
    )
    for path in (f"{OBJECT}/a%2Fb?alt=media", resource["mediaLink"].removeprefix(box.url)):
        got = box.request("GET", path)
        assert (got.status, got.body) == (200, b"abc")
        seen = {name.lower(): value for name, value in got.headers.items()}
        assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", seen.pop("last-modified"))
        del seen["date"], seen["server"]
        assert seen == {
            "accept-ranges": "bytes",
            "content-length": "3",
            "content-type": "text/plain",
            "etag": resource["etag"],
            "x-goog-generation": resource["generation"],
            "x-goog-hash": "crc32c=Nks/tw==,md5=kAFQmDzST7DWlj99KOF/cg==",
            "x-goog-metageneration": "1",
            "x-goog-storage-class": "STANDARD",
            "x-goog-stored-content-encoding": "identity",
            "x-goog-stored-content-length": "3",
        }


@pytest.mark.parametrize(
    ("header", "status", "body", "content_range"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=8-", 206, b"89", "bytes 8-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=4-2", 200, b"0123456789", None),
        ("bytes=1-2,4-5", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
    ],
)
def test_range_forms(box, header, status, body, content_range):
    box.request("POST", f"{UPLOAD}?uploadType=media&name=x", b"0123456789")
    reply = box.request("GET", f"{OBJECT}/x?alt=media", Range=header)
    assert (reply.status, reply.headers["Content-Range"]) == (status, content_range)
    if body is None:
        assert reason(reply) == "requestedRangeNotSatisfiable"
    else:
        assert reply.body == body


def start(box, name="big", body=b"{}", **headers):
    path = f"{UPLOAD}?uploadType=resumable&name={name}"
    reply = box.request("POST", path, body, **headers)
    assert reply.status == 200
    location = reply.headers["Location"]
    assert location.startswith(f"http://127.0.0.1:{box.port}{UPLOAD}?")
    return location.removeprefix(box.url)


def put(box, session, data, content_range, **headers):
    return box.request("PUT", session, data, Content_Range=content_range, **headers)


def test_a_resumable_upload_step_by_step(box):
    session = start(box, X_Upload_Content_Type="text/x")
    first = put(box, session, b"", "bytes */*")
    assert (first.status, first.reason if hasattr(first, "reason") else None) == (308, None)
    assert "Range" not in first.headers
    assert put(box, session, b"01234", "bytes 0-4/*").headers["Range"] == "bytes=0-4"
    again = put(box, session, b"34567", "bytes 3-7/*")
    assert (again.status, again.headers["Range"]) == (308, "bytes=0-7")
    assert put(box, session, b"", "bytes */*").headers["Range"] == "bytes=0-7"
    gap = put(box, session, b"x", "bytes 9-9/10")
    assert (gap.status, reason(gap)) == (503, "backendError")
    assert "upload offset is 9 byte(s), which exceeds" in json.loads(gap.body)["error"]["message"]
    assert put(box, session, b"", "bytes */99").status == 308
    assert box.request("GET", f"{OBJECT}/big").status == 404
    last = put(box, session, b"89", "bytes 8-9/10")
    assert (last.status, json.loads(last.body)["size"]) == (200, "10")
    assert json.loads(last.body)["contentType"] == "text/x"
    assert media(box, "big") == b"0123456789"
    for late in ("bytes 8-9/10", "bytes */10", "bytes */*"):
        reply = put(box, session, b"89" if "8" in late else b"", late)
        assert (reply.status, reply.body) == (200, last.body)


def test_a_resumable_upload_in_one_request_and_of_nothing(box):
    assert box.request("PUT", start(box), b"whole").status == 200
    assert media(box, "big") == b"whole"
    assert put(box, start(box, "empty"), b"", "bytes */0").status == 200
    assert media(box, "empty") == b""


def test_the_disguised_308(box):
    reply = put(box, start(box), b"abc", "bytes 0-2/*", X_GUploader_No_308="yes")
    assert (reply.status, reply.headers["X-HTTP-Status-Code-Override"]) == (200, "308")
    assert reply.headers["Range"] == "bytes=0-2"


def test_a_cancelled_upload_is_gone(box):
    session = start(box)
    put(box, session, b"abc", "bytes 0-2/*")
    assert box.request("DELETE", session).status == 499
    assert put(box, session, b"", "bytes */*").status == 404
    assert list((box.directory / "storage" / "incoming").iterdir()) == []


def test_a_refused_resumable_upload_makes_no_object(box):
    session = start(box, body=b'{"crc32c": "AAAAAA=="}')
    assert put(box, session, b"abc", "bytes 0-2/3").status == 400
    late = start(box)
    assert put(box, late, b"abc", "bytes 0-2/3", X_Goog_Hash="crc32c=AAAAAA==").status == 400
    more = start(box)
    assert put(box, more, b"abcd", "bytes 0-2/3").status == 400
    assert box.request("GET", f"{OBJECT}/big").status == 404


def until(condition):
    """Wait for what another thread is about to do."""
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.005)


def test_a_newcomer_takes_over_from_a_stalled_request(box):
    session, data = start(box), os.urandom(600_000)
    incoming = box.directory / "storage" / "incoming"
    head = f"PUT {session} HTTP/1.1\r\nHost: 127.0.0.1:{box.port}\r\n"
    head += "Content-Length: 600000\r\nContent-Range: bytes 0-599999/600000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", box.port)) as stalled:
        stalled.sendall(head.encode() + data[:300_000])
        until(lambda: sum(path.stat().st_size for path in incoming.iterdir()) == 300_000)
        status = put(box, session, b"", "bytes */*")
        assert (status.status, status.headers["Range"]) == (308, "bytes=0-299999")
        assert stalled.recv(100).startswith(b"HTTP/1.1 503 ")
        reply = put(box, session, data[300_000:], "bytes 300000-599999/600000")
    assert reply.status == 200
    assert media(box, "big") == data


def test_an_upload_that_breaks_off_leaves_nothing(box):
    head = f"POST {UPLOAD}?uploadType=media&name=x HTTP/1.1\r\nHost: 127.0.0.1:{box.port}\r\n"
    incoming = box.directory / "storage" / "incoming"
    with socket.create_connection(("127.0.0.1", box.port)) as broken:
        broken.sendall(head.encode() + b"Content-Length: 500000\r\n\r\n" + b"x" * 400_000)
        until(lambda: list(incoming.iterdir()))
    until(lambda: not list(incoming.iterdir()))
    assert box.request("GET", f"{OBJECT}/x").status == 404


def test_readers_finish_the_object_they_began(box):
    old = os.urandom(8_000_000)
    box.request("POST", f"{UPLOAD}?uploadType=media&name=x", old)
    with socket.create_connection(("127.0.0.1", box.port)) as reader:
        request = f"GET {OBJECT}/x?alt=media HTTP/1.1\r\nHost: localhost:{box.port}\r\n"
        reader.sendall(request.encode() + b"Connection: close\r\n\r\n")
        got = reader.recv(1000)
        box.request("POST", f"{UPLOAD}?uploadType=media&name=x", b"new")
        assert media(box, "x") == b"new"
        while data := reader.recv(1 << 20):
            got += data
    assert got.partition(b"\r\n\r\n")[2] == old


def test_errors_are_google_shaped(box):
    request = box.request
    missing = request("GET", f"{OBJECT}/nope")
    assert (missing.status, reason(missing)) == (404, "notFound")
    assert json.loads(missing.body)["error"]["message"] == "No such object: box/nope"
    assert reason(request("POST", "/storage/v1/b?project=p", b'{"name": "box"}')) == "conflict"
    assert reason(request("POST", "/storage/v1/b?project=p", b'{"name": "No"}')) == "invalid"
    assert reason(request("POST", "/storage/v1/b", b'{"name": "box2"}')) == "invalid"
    assert reason(request("POST", "/storage/v1/b?project=p", b"{")) == "invalid"
    assert reason(request("GET", f"{OBJECT}/%FF")) == "invalid"
    assert reason(request("GET", f"{OBJECT}/x?ifGenerationMatch=one")) == "invalid"
    assert reason(request("GET", f"{OBJECT}?pageToken=%25")) == "invalid"
    assert reason(request("POST", f"{UPLOAD}?uploadType=media&name=x&ifGenerationMatch=7")) == (
        "conditionNotMet"
    )
    unmodified = request("GET", f"{OBJECT}/x?ifGenerationNotMatch=0")
    assert unmodified.status == 404
    for method, path, what in (
        ("PATCH", "/storage/v1/b/box", "storage.buckets.patch"),
        ("GET", "/storage/v1/b/box/acl", "GET /storage/v1/b/box/acl"),
        ("PUT", "/box/object", "PUT /box/object"),
        ("GET", f"{OBJECT}?matchGlob=*", "The parameter 'matchGlob'"),
        ("POST", f"{UPLOAD}?uploadType=media&name=x&predefinedAcl=publicRead", "predefinedAcl"),
    ):
        reply = request(method, path)
        assert (reply.status, reason(reply)) == (501, "notImplemented")
        assert json.loads(reply.body)["error"]["message"].startswith(what)


def test_a_property_that_would_not_be_honoured_is_refused(box):
    versioned = b'{"name": "box3", "versioning": {"enabled": true}}'
    assert box.request("POST", "/storage/v1/b?project=p", versioned).status == 501
    assert multipart(box, "\n", b"", '{"name": "x", "temporaryHold": true}').status == 501
    assert multipart(box, "\n", b"", '{"name": "x", "contentType": "a\\r\\nb: c"}').status == 400
    assert multipart(box, "\n", b"", '{"name": "x", "metadata": {"a": 1}}').status == 400
    assert box.request("GET", f"{OBJECT}/x").status == 404


def test_links_carry_the_host_that_the_client_used(box):
    host = f"localhost:{box.port}"
    reply = box.request("POST", f"{UPLOAD}?uploadType=media&name=x", b"", Host=host)
    assert json.loads(reply.body)["selfLink"] == f"http://{host}{OBJECT}/x"
    reply = box.request("POST", f"{UPLOAD}?uploadType=resumable&name=x", b"{}", Host=host)
    assert reply.headers["Location"].startswith(f"http://{host}/upload/")
