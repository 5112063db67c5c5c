"""The XML API byte by byte: objects, copies, buckets, and errors in their own envelope."""

import base64
import gzip
import hashlib
import json
import urllib.parse
from xml.etree import ElementTree

import pytest

from client.storage.xml_api.xml_wire import code, kept_files, put_object, texts

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")

OTHER_PATHS = ("v1/b", "v1/b/box", "v1/b/box/o")


def test_an_object_comes_back_with_everything_that_was_said_of_it(xml):
    given = {
        "Content_Type": "text/plain; charset=utf-8",
        "Cache_Control": "no-store",
        "Content_Disposition": "inline",
        "Content_Language": "de",
        "x_goog_meta_run": "7",
        "X_Goog_Meta_Name": "Zoë".encode(),
        "x_goog_storage_class": "NEARLINE",
    }
    written = put_object(xml, "/box/all/of%20it", **given)
    assert written.headers["ETag"] == '"900150983cd24fb0d6963f7d28e17f72"'
    assert written.headers["X-Goog-Hash"] == "crc32c=Nks/tw==,md5=kAFQmDzST7DWlj99KOF/cg=="
    assert written.headers["X-Goog-Stored-Content-Length"] == "3"
    reply = xml.request("GET", "/box/all/of%20it")
    assert (reply.status, reply.body) == (200, b"abc")
    for name in ("ETag", "X-Goog-Generation", "X-Goog-Metageneration", "X-Goog-Hash"):
        assert reply.headers[name] == written.headers[name]
    shown = {name.replace("_", "-"): value for name, value in given.items()}
    shown["X-Goog-Meta-Name"] = "Zoë"
    for name, value in shown.items():
        assert reply.headers[name].encode("latin-1", "ignore").decode() == value
    assert xml.client().bucket("box").get_blob("all/of it").metadata == {"run": "7", "name": "Zoë"}


def test_head_says_the_same_and_sends_nothing(xml):
    put_object(xml, "/box/head", b"x" * 200_000, x_goog_meta_run="7")
    whole, head = xml.request("GET", "/box/head"), xml.request("HEAD", "/box/head")
    assert head.status == 200
    assert head.body == b""
    assert {k: v for k, v in head.headers.items() if k != "Date"} == {
        k: v for k, v in whole.headers.items() if k != "Date"
    }
    assert xml.request("HEAD", "/box/nothing").status == 404


@pytest.mark.parametrize("size", [0, 3, 200_000])
def test_bytes_of_every_size(xml, size):
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    put_object(xml, "/box/size", data)
    assert xml.request("GET", "/box/size").body == data


def test_ranges(xml):
    put_object(xml, "/box/range", b"0123456789")
    reply = xml.request("GET", "/box/range", Range="bytes=2-4")
    assert (reply.status, reply.body) == (206, b"234")
    assert reply.headers["Content-Range"] == "bytes 2-4/10"
    assert xml.request("GET", "/box/range", Range="bytes=-3").body == b"789"
    reply = xml.request("GET", "/box/range", Range="bytes=10-")
    assert code(reply) == (416, "InvalidRange")
    assert reply.headers["Content-Range"] == "bytes */10"


@pytest.mark.parametrize(
    "name", ["a/../../b", "..%2F..", "%2Fetc%2Fpasswd", "a//b/", "a%00b", "%3F"]
)
def test_a_name_is_a_name_and_no_path(xml, name):
    put_object(xml, f"/box/{name}", name.encode())
    assert xml.request("GET", f"/box/{name}").body == name.encode()
    assert xml.client().bucket("box").get_blob(urllib.parse.unquote(name)) is not None


@pytest.mark.parametrize("path", OTHER_PATHS)
def test_a_bucket_may_be_named_like_a_path_of_the_json_api(xml, path):
    try:
        xml.client().create_bucket("storage")
    except Exception as error:  # noqa: BLE001
        assert "409" in str(error)
    put_object(xml, "/storage/data")
    assert xml.request("GET", "/storage/data").body == b"abc"
    assert xml.request("GET", f"/storage/{path}?project=p").body.startswith(b'{"kind"')


def test_checksums_that_do_not_fit(xml):
    md5 = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    for header in ({"Content_MD5": md5}, {"x_goog_hash": "crc32c=AAAAAA=="}):
        reply = xml.request("PUT", "/box/sums", b"abc", **header)
        assert code(reply) == (400, "BadDigest")
        assert ElementTree.fromstring(reply.body).find("Details").text
    assert xml.request("GET", "/box/sums").status == 404
    put_object(xml, "/box/sums", x_goog_hash="crc32c=Nks/tw==,md5=kAFQmDzST7DWlj99KOF/cg==")


def test_conditions_on_generations(xml):
    written = put_object(xml, "/box/once", x_goog_if_generation_match="0")
    first = written.headers["X-Goog-Generation"]
    again = xml.request("PUT", "/box/once", b"2", x_goog_if_generation_match="0")
    assert code(again) == (412, "PreconditionFailed")
    for name, value in (("generation", int(first) + 1), ("metageneration", 2)):
        header = {f"x_goog_if_{name}_match": str(value)}
        for verb in ("PUT", "GET", "HEAD", "DELETE"):
            assert xml.request(verb, "/box/once", b"", **header).status == 412
    put_object(xml, "/box/once", b"2", x_goog_if_generation_match=first)
    assert xml.request("GET", f"/box/once?generation={first}").status == 404
    assert code(xml.request("PUT", "/box/once", b"", x_goog_if_generation_match="x"))[0] == 400


def test_conditions_on_etags_and_dates(xml):
    written = put_object(xml, "/box/seen")
    etag, other = written.headers["ETag"], '"0123"'
    seen = xml.request("GET", "/box/seen").headers["Last-Modified"]
    early, late = "Mon, 01 Jan 2001 00:00:00 GMT", "Mon, 01 Jan 2125 00:00:00 GMT"
    for status, headers in (
        (200, {"If_Match": f"{other}, {etag}"}),
        (412, {"If_Match": other}),
        (304, {"If_None_Match": etag}),
        (304, {"If_None_Match": "*"}),
        (200, {"If_None_Match": other}),
        (304, {"If_Modified_Since": seen}),
        (200, {"If_Modified_Since": early}),
        (200, {"If_Modified_Since": "yesterday"}),
        (412, {"If_Unmodified_Since": early}),
        (200, {"If_Unmodified_Since": seen}),
        (200, {"If_None_Match": other, "If_Modified_Since": late}),
    ):
        for verb in ("GET", "HEAD"):
            assert xml.request(verb, "/box/seen", **headers).status == status, headers
    assert xml.request("GET", "/box/seen", If_None_Match=etag).headers["ETag"] == etag
    assert xml.request("PUT", "/box/seen", b"2", If_None_Match="*").status == 412
    assert xml.request("PUT", "/box/seen", b"2", If_Match=other).status == 412
    assert xml.request("DELETE", "/box/seen", If_Match=other).status == 412
    assert xml.request("GET", "/box/seen").body == b"abc"
    put_object(xml, "/box/seen", b"2", If_Match=etag)
    put_object(xml, "/box/unseen", b"2", If_None_Match="*")


def test_a_refused_put_leaves_no_bytes_behind(xml):
    put_object(xml, "/box/taken")
    before = kept_files(xml)
    for refused in ({"If_None_Match": "*"}, {"x_goog_if_generation_match": "0"}):
        assert xml.request("PUT", "/box/taken", bytes(200_000), **refused).status == 412
    assert kept_files(xml) == before


def test_a_composed_object_says_of_how_many_it_is(xml):
    bucket = xml.client().bucket("box")
    for name in ("part1", "part2"):
        put_object(xml, f"/box/{name}")
    bucket.blob("composed").compose([bucket.blob("part1"), bucket.blob("part2")])
    reply = xml.request("GET", "/box/composed")
    assert (reply.body, reply.headers["X-Goog-Component-Count"]) == (b"abcabc", "2")
    assert "md5" not in reply.headers["X-Goog-Hash"]
    assert xml.request("GET", "/box/composed", If_None_Match=reply.headers["ETag"]).status == 304


def test_a_deleted_object_is_gone(xml):
    put_object(xml, "/box/gone")
    assert xml.request("DELETE", "/box/gone").status == 204
    assert code(xml.request("DELETE", "/box/gone")) == (404, "NoSuchKey")
    assert code(xml.request("GET", "/box/gone")) == (404, "NoSuchKey")


def test_what_is_stored_compressed_is_stored_as_it_came(xml):
    packed = gzip.compress(b"abc" * 1000)
    put_object(xml, "/box/packed", packed, Content_Encoding="gzip")
    as_stored = xml.request("GET", "/box/packed", Accept_Encoding="gzip")
    assert (as_stored.body, as_stored.headers["Content-Encoding"]) == (packed, "gzip")
    assert xml.request("GET", "/box/packed").body == b"abc" * 1000


def test_a_copy(xml):
    put_object(
        xml, "/box/from%20here", b"x" * 300_000, Content_Type="text/plain", x_goog_meta_run="7"
    )
    reply = put_object(xml, "/box/to", b"", x_goog_copy_source="box/from%20here")
    assert texts(reply, "ETag")
    copy = xml.request("GET", "/box/to")
    assert copy.body == b"x" * 300_000
    assert (copy.headers["Content-Type"], copy.headers["X-Goog-Meta-Run"]) == ("text/plain", "7")
    kept = xml.request(
        "PUT", "/box/to", b"", x_goog_copy_source="/box/from%20here", x_goog_if_generation_match="0"
    )
    assert code(kept) == (412, "PreconditionFailed")
    put_object(
        xml, "/box/to", b"", x_goog_copy_source="box/from%20here",
        x_goog_metadata_directive="REPLACE", x_goog_meta_run="8",
    )  # fmt: skip
    assert xml.request("HEAD", "/box/to").headers["X-Goog-Meta-Run"] == "8"
    absent = xml.request("PUT", "/box/to", b"", x_goog_copy_source="box/nothing")
    assert code(absent) == (404, "NoSuchKey")
    assert code(xml.request("PUT", "/box/to", b"", x_goog_copy_source="box"))[0] == 400


def test_buckets(xml):
    xml.client().create_bucket("another", project="q")
    assert texts(xml.request("GET", "/", x_goog_project_id="q"), "Buckets/Bucket/Name") == [
        "another"
    ]
    assert code(xml.request("GET", "/")) == (400, "InvalidArgument")
    assert xml.request("HEAD", "/another").status == 200
    assert xml.request("HEAD", "/another/").status == 200
    assert xml.request("HEAD", "/nothing").status == 404
    for verb, path in (("GET", "/nothing"), ("GET", "/nothing/x"), ("PUT", "/nothing/x")):
        assert code(xml.request(verb, path)) == (404, "NoSuchBucket")


@pytest.mark.parametrize(
    ("verb", "path", "headers"),
    [
        ("PUT", "/box/x?compose", {}),
        ("PUT", "/box/x?partNumber=1", {}),
        ("GET", "/box/x?versions", {}),
        ("GET", "/box?lifecycle", {}),
        ("POST", "/box?delete", {}),
        ("POST", "/box/x", {}),
        ("PATCH", "/box/x", {}),
        ("PUT", "/box/x", {"x_goog_encryption_algorithm": "AES256"}),
        ("PUT", "/box/x", {"Content_Range": "bytes 0-0/1"}),
        ("PUT", "/box/x", {"x_amz_content_sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}),
    ],
)
def test_what_is_absent_says_so_and_does_nothing(xml, verb, path, headers):
    assert code(xml.request(verb, path, b"1", **headers)) == (501, "NotImplemented")
    assert xml.request("GET", "/box/x").status == 404
    assert xml.request("HEAD", "/box").status == 200


def test_metadata_that_no_header_can_hold_breaks_no_reply(xml):
    blob = xml.client().bucket("box").blob("odd")
    blob.metadata = {"two\r\nlines": "1", "ok": "a\r\nSet-Cookie: b", "spaced key": "2"}
    blob.upload_from_string(b"abc")
    reply = xml.request("GET", "/box/odd")
    assert (reply.status, reply.body) == (200, b"abc")
    assert reply.headers["X-Goog-Meta-Ok"] == "a%0D%0ASet-Cookie%3A b"
    assert "Set-Cookie" not in reply.headers


def test_clients_of_s3_are_understood(xml):
    put_object(xml, "/box/s3", x_amz_meta_run="7", x_amz_content_sha256="UNSIGNED-PAYLOAD")
    assert xml.request("HEAD", "/box/s3").headers["X-Goog-Meta-Run"] == "7"
    put_object(xml, "/box/s3copy", b"", x_amz_copy_source="/box/s3")
    assert xml.request("GET", "/box/s3copy").body == b"abc"


def test_faults_that_clients_ask_for_come_here_too(xml):
    instructions = {"storage.objects.insert": ["return-503"], "storage.objects.get": ["return-429"]}
    made = xml.request("POST", "/retry_test", json.dumps({"instructions": instructions}))
    fault = {"X-Retry-Test-ID": json.loads(made.body)["id"]}
    refused = xml.request("PUT", "/box/fault", b"abc", **fault)
    assert code(refused) == (503, "ServiceUnavailable")
    put_object(xml, "/box/fault", **fault)
    assert code(xml.request("GET", "/box/fault", **fault)) == (429, "SlowDown")
    assert xml.request("GET", "/box/fault", **fault).body == b"abc"


@pytest.mark.parametrize("name", ["generation", "part-number-marker", "max-keys"])
def test_numbers_beyond_64_bits(xml, name):
    put_object(xml, "/box/number")
    for path in ("/box/number?", "/box/number?uploadId=x&", "/box?"):
        assert xml.request("GET", f"{path}{name}={'9' * 19}").status in (200, 400, 404)


def test_a_batch_holds_calls_of_the_json_api_only(xml):
    put_object(xml, "/box/batched", b"secret")
    part = b"Content-Type: application/http\r\n\r\nGET /box/batched HTTP/1.1\r\n\r\n"
    body = b"--B\r\n" + part + b"\r\n--B--\r\n"
    kind = "multipart/mixed; boundary=B"
    reply = xml.request("POST", "/batch/storage/v1", body, Content_Type=kind)
    assert reply.status == 200
    assert b"HTTP/1.1 501 " in reply.body
    assert b"secret" not in reply.body
