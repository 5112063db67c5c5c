"""Uploads in one request, and refusals, as they go over the wire byte by byte."""

import gzip
import json
import re
import socket

import pytest

pytest_plugins = ("client.storage.storage_fixtures",)

UNEQUAL = ("invalidParameter", "name")
NAMELESS = ("required", "sourceObjects.name")


def multipart(box, newline, data, resource='{"name": "x"}', tail=None, **headers):
    lines = ["--==B==", "Content-Type: application/json; charset=UTF-8", "", resource]
    lines += ["--==B==", "Content-Type: text/plain", "", ""]
    head = newline.join(lines).encode()
    tail = newline.encode() + b"--==B==--" if tail is None else tail
    content_type = 'multipart/related; boundary="==B=="'
    path = f"{box.uploads}?uploadType=multipart"
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
    assert box.media("x") == data


@pytest.mark.parametrize("tail", [b"", b"\r\n--==B==", b"\r\n--==B==\r\n\r\nthird\r\n--==B==--"])
def test_a_broken_multipart_body_makes_no_object(box, tail):
    reply = multipart(box, "\r\n", b"data", tail=tail)
    assert (reply.status, reply.reason) == (400, "invalid")
    assert box.request("GET", f"{box.objects}/x").status == 404


def test_given_checksums_are_checked(box):
    good, bad = "crc32c=Nks/tw==,md5=kAFQmDzST7DWlj99KOF/cg==", "crc32c=AAAAAA=="
    media_path = f"{box.uploads}?uploadType=media&name=x"
    for resource in ('{"name":"x","crc32c":"AAAAAA=="}', '{"name":"x","md5Hash":"AAAA"}'):
        assert multipart(box, "\n", b"abc", resource).status == 400
    assert multipart(box, "\n", b"abc", X_Goog_Hash=bad).status == 400
    assert box.request("POST", media_path, b"abc", X_Goog_Hash=bad).status == 400
    assert box.request("GET", f"{box.objects}/x").status == 404
    assert multipart(box, "\n", b"abc", '{"name":"x","crc32c":"Nks/tw=="}').status == 200
    assert box.request("POST", media_path, b"abc", X_Goog_Hash=good).status == 200


def test_simple_upload_and_headers_of_the_download(box):
    reply = box.request(
        "POST", f"{box.uploads}?uploadType=media&name=a%2Fb", b"abc", Content_Type="text/plain"
    )
    resource = json.loads(reply.body)
    assert resource["name"] == "a/b"
    assert resource["id"] == f"{box.name}/a/b/{resource['generation']}"
    assert resource["mediaLink"] == (
        f"{box.service.url}/download{box.objects}/a%2Fb"
        f"?generation={resource['generation']}&alt=media"
    )
    for path in (
        f"{box.objects}/a%2Fb?alt=media",
        resource["mediaLink"].removeprefix(box.service.url),
    ):
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


def test_an_upload_that_breaks_off_leaves_nothing(box, until):
    head = f"POST {box.uploads}?uploadType=media&name=x HTTP/1.1\r\n"
    head += f"Host: 127.0.0.1:{box.service.port}\r\nContent-Length: 500000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", box.service.port)) as broken:
        broken.sendall(head.encode() + b"x" * 400_000)
        until(lambda: box.incoming)
    until(lambda: not box.incoming)
    assert box.request("GET", f"{box.objects}/x").status == 404


def test_a_body_compressed_on_its_way_is_stored_plain(box):
    data = b"plain " * 100_000
    path = f"{box.uploads}?uploadType=media&name=x"
    assert box.request("POST", path, gzip.compress(data), Content_Encoding="gzip").status == 200
    assert box.media("x") == data
    broken = box.request("POST", path, gzip.compress(data)[:-9], Content_Encoding="gzip")
    assert (broken.status, broken.reason) == (400, "invalid")
    other = box.request("POST", path, data, Content_Encoding="br")
    assert (other.status, other.reason) == (501, "notImplemented")
    assert box.media("x") == data


def test_an_upload_must_say_where_it_ends_and_may_be_chunked(box):
    head = f"POST {box.uploads}?uploadType=media&name=x HTTP/1.1\r\n"
    head += f"Host: 127.0.0.1:{box.service.port}\r\nConnection: close\r\n"
    reply = box.service.raw(head.encode() + b"\r\n")
    assert reply.startswith(b"HTTP/1.1 411 ")
    assert b'"reason":"lengthRequired"' in reply
    chunked = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert box.service.raw(head.encode() + chunked).startswith(b"HTTP/1.1 200 ")
    assert box.media("x") == b"abcde"
    huge = box.request(
        "POST",
        f"{box.uploads}?uploadType=resumable&name=x",
        b"{}",
        X_Upload_Content_Length=str(5 * 1024**4 + 1),
    )
    assert (huge.status, huge.reason) == (413, "uploadTooLarge")


def test_errors_are_google_shaped(box):
    missing = box.request("GET", f"{box.objects}/nope")
    assert missing.error == {
        "code": 404,
        "message": f"No such object: {box.name}/nope",
        "errors": [
            {
                "message": f"No such object: {box.name}/nope",
                "domain": "global",
                "reason": "notFound",
            }
        ],
    }
    unmet = box.upload("x", b"", query="&ifGenerationMatch=7")
    assert (unmet.status, unmet.error["errors"][0]["reason"]) == (412, "conditionNotMet")
    assert unmet.error["errors"][0]["location"] == "If-Match"
    taken = box.request("POST", "/storage/v1/b?project=p", json.dumps({"name": box.name}).encode())
    assert (taken.status, taken.reason) == (409, "conflict")


@pytest.mark.parametrize(
    ("method", "path", "body", "told", "where"),
    [
        ("POST", "/storage/v1/b?project=p", b'{"name": "No"}', "invalid", None),
        ("POST", "/storage/v1/b?project=p", b"{", "parseError", None),
        ("POST", "/storage/v1/b?project=p", b"{}", "required", "name"),
        ("POST", "/storage/v1/b", b'{"name": "box2"}', "required", "project"),
        ("GET", "/storage/v1/b//o", b"", "required", "bucket"),
        ("GET", "/storage/v1/b/", b"", "required", "bucket"),
        ("GET", "{objects}/", b"", "required", "object"),
        ("GET", "{objects}/%FF", b"", "invalid", None),
        ("GET", "{objects}/x?ifGenerationMatch=one", b"", "invalidParameter", "ifGenerationMatch"),
        ("GET", "{objects}/x?alt=xml", b"", "invalidAltValue", "alt"),
        ("GET", "{objects}?pageToken=%25", b"", "invalidParameter", "pageToken"),
        ("GET", "{objects}?maxResults=-1", b"", "invalidParameter", "maxResults"),
        ("GET", "{objects}?versions=maybe", b"", "invalidParameter", "versions"),
        ("GET", "{objects}?matchGlob=%5B", b"", "invalid", None),
        ("POST", "{uploads}?name=x", b"", "required", "uploadType"),
        ("POST", "{uploads}?name=x&uploadType=quick", b"", "invalidParameter", "uploadType"),
        ("POST", "{uploads}?uploadType=media", b"", "required", "name"),
        ("POST", "{uploads}?uploadType=media&name=a%0Ab", b"", "invalid", None),
        (
            "POST",
            "{uploads}?uploadType=resumable&name=x",
            b'{"name": "y"}',
            "invalidParameter",
            "name",
        ),
        ("PUT", "{uploads}", b"", "required", "upload_id"),
        ("POST", "{objects}/x/compose", b'{"sourceObjects": 7}', "invalid", None),
        (
            "POST",
            "{objects}/x/compose",
            b'{"sourceObjects": [{}]}',
            "required",
            "sourceObjects.name",
        ),
    ],
)
def test_what_does_not_read_is_named(box, method, path, body, told, where):
    reply = box.request(method, path.format(objects=box.objects, uploads=box.uploads), body)
    assert (reply.status, reply.reason) == (400, told)
    assert reply.error["errors"][0].get("location") == where


def test_a_line_feed_in_a_path_is_part_of_a_name(box):
    """Which no object can have; the reply is Google's and not the router's."""
    assert box.request("GET", f"{box.objects}/a%0Ab").reason == "notFound"
    copied = box.request("POST", f"{box.objects}/x/copyTo/b/{box.name}/o/a%0Ab")
    assert (copied.status, copied.reason) == (400, "invalid")


def test_an_encoded_slash_is_part_of_a_name_and_a_plain_one_is_not(box):
    box.upload("a%2Fcompose", b"abc")
    assert box.media("a%2Fcompose") == b"abc"
    assert box.request("GET", f"{box.objects}/a/compose").status == 501


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("GET", "{bucket}/folders", "storage.folders"),
        ("POST", "{objects}/x/restore", "storage.objects.restore"),
        ("GET", "{objects}?softDeleted=true", "The parameter 'softDeleted'"),
        ("GET", "{objects}?filter=x", "The parameter 'filter'"),
        ("PURGE", "{objects}/x", "PURGE"),
    ],
)
def test_what_is_absent_says_so(box, method, path, what):
    reply = box.request(
        method, path.format(bucket=box.bucket_path, objects=box.objects, uploads=box.uploads)
    )
    assert (reply.status, reply.reason) == (501, "notImplemented")
    assert reply.error["message"].startswith(what)


def test_parameters_that_change_nothing_here_are_accepted(box):
    box.upload("x", b"abc", query="&predefinedAcl=private&projection=full&userProject=p")
    query = "?projection=full&userProject=p&prettyPrint=false&alt=json&softDeleted=False"
    assert json.loads(box.request("GET", f"{box.objects}/x{query}").body)["size"] == "3"


@pytest.mark.parametrize("field", ['"contentType": "a\\r\\nb: c"', '"metadata": {"a": 1}'])
def test_metadata_that_cannot_be_kept_is_refused(box, field):
    assert multipart(box, "\n", b"", f'{{"name": "x", {field}}}').status == 400
    assert box.request("GET", f"{box.objects}/x").status == 404


def test_links_carry_the_host_that_the_client_used(box):
    host = f"localhost:{box.service.port}"
    reply = box.upload("x", b"", Host=host)
    assert json.loads(reply.body)["selfLink"] == f"http://{host}{box.objects}/x"
    reply = box.request("POST", f"{box.uploads}?uploadType=resumable&name=x", b"{}", Host=host)
    assert reply.headers["Location"].startswith(f"http://{host}/upload/")


def test_a_get_too_long_for_a_url_comes_as_a_form(box):
    """As gcloud and gsutil send it; nothing else overrides the method of a request."""
    box.upload("abc", b"")
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    query = b"fields=items%2Fname&prefix=a&endOffset=" + b"b" * 3000
    reply = box.request("POST", box.objects, query, **form, X_HTTP_Method_Override="GET")
    assert (reply.status, reply.json) == (200, {"items": [{"name": "abc"}]})
    path = f"{box.objects}/abc"
    assert box.request("POST", path, b"", **form, X_HTTP_Method_Override="DELETE").status == 403
    assert box.request("DELETE", path, b"", **form, X_HTTP_Method_Override="GET").status == 403
    huge = box.request("POST", path, b"a" * 70_000, **form, X_HTTP_Method_Override="GET")
    assert (huge.status, huge.reason) == (413, "uploadTooLarge")
    assert box.media("abc") == b""


def test_an_upload_waits_for_its_md5_only_when_the_reply_shows_it(box):
    data, md5 = bytes(300_000), "SiHeelj7jsuaGx8IowaCaQ=="
    assert box.upload("x", data).json["md5Hash"] == md5
    box.upload("y", data, query="&fields=name")
    listed = {
        item["name"]: item.get("md5Hash") for item in box.request("GET", box.objects).json["items"]
    }
    assert listed == {"x": md5, "y": None}
    assert box.request("GET", f"{box.objects}/y").json["md5Hash"] == md5
