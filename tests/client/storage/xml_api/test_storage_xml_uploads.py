"""Multipart uploads of the XML API, request by request."""

import base64
import hashlib
import os

import pytest

from client.storage.xml_api.xml_wire import code, complete, kept_files, put_part, start, texts

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")

PART = os.urandom(5 * 1024 * 1024)


def test_parts_in_any_order_become_one_object_and_no_byte_is_copied(xml):
    before = kept_files(xml)
    upload = start(xml, "whole", Content_Type="text/x", x_goog_meta_run="7")
    last = put_part(xml, upload, 9, b"the end")
    first = put_part(xml, upload, 2, PART)
    files = kept_files(xml) - before
    reply = complete(xml, upload, (2, first), (9, last))
    assert (reply.status, texts(reply, "Key")) == (200, ["whole"])
    assert kept_files(xml) - before == files
    blob = xml.client().bucket("box").get_blob("whole")
    assert blob.download_as_bytes(checksum="crc32c") == PART + b"the end"
    assert (blob.content_type, blob.metadata, blob.md5_hash) == ("text/x", {"run": "7"}, None)
    assert str(blob.generation) == reply.headers["X-Goog-Generation"]
    etag = xml.request("HEAD", "/box/whole").headers["ETag"]
    assert texts(reply, "ETag") == [etag]
    assert code(complete(xml, upload, (2, first))) == (404, "NoSuchUpload")


def test_a_part_is_replaced_and_what_is_not_listed_is_dropped(xml):
    upload = start(xml, "replaced")
    before = kept_files(xml)
    old = put_part(xml, upload, 1, b"old" * 100_000)
    new = put_part(xml, upload, 1, b"new" * 100_000)
    put_part(xml, upload, 2, b"unlisted" * 100_000)
    assert len(kept_files(xml) - before) == 2
    assert code(complete(xml, upload, (1, old))) == (400, "InvalidPart")
    assert complete(xml, upload, (1, new.strip('"'))).status == 200
    assert xml.request("GET", "/box/replaced").body == b"new" * 100_000
    assert len(kept_files(xml) - before) == 1
    xml.request("DELETE", "/box/replaced")
    assert kept_files(xml) == before


def test_an_aborted_upload_leaves_nothing(xml):
    before = kept_files(xml)
    upload = start(xml, "aborted")
    etag = put_part(xml, upload, 1, b"x" * 200_000)
    assert xml.request("DELETE", upload).status == 204
    assert kept_files(xml) == before
    for verb, path in (
        ("DELETE", upload),
        ("GET", upload),
        ("PUT", f"{upload}&partNumber=1"),
    ):
        assert code(xml.request(verb, path, b"")) == (404, "NoSuchUpload")
    assert code(complete(xml, upload, (1, etag))) == (404, "NoSuchUpload")
    assert xml.request("GET", "/box/aborted").status == 404


def test_what_cannot_be_completed_stays_and_can_be_completed_later(xml):
    upload = start(xml, "refused")
    one, two = put_part(xml, upload, 1, b"small"), put_part(xml, upload, 2, b"end")
    assert code(complete(xml, upload, (1, one), (2, two))) == (400, "EntityTooSmall")
    assert code(complete(xml, upload, (2, two), (1, one))) == (400, "InvalidPartOrder")
    assert code(complete(xml, upload, (1, one), (1, one))) == (400, "InvalidPartOrder")
    assert code(complete(xml, upload, (1, two))) == (400, "InvalidPart")
    assert code(complete(xml, upload, (3, one))) == (400, "InvalidPart")
    assert code(complete(xml, upload))[0] == 400
    assert xml.request("GET", "/box/refused").status == 404
    put_part(xml, upload, 1, PART)
    one = put_part(xml, upload, 1, PART)
    assert complete(xml, upload, (1, one), (2, two)).status == 200
    assert xml.request("GET", "/box/refused").body == PART + b"end"


def test_an_object_that_is_held_is_not_replaced_and_the_upload_can_wait(xml):
    blob = xml.client().bucket("box").blob("held")
    blob.upload_from_string(b"held")
    blob.temporary_hold = True
    blob.patch()
    upload = start(xml, "held")
    etag = put_part(xml, upload, 1, b"new")
    assert code(complete(xml, upload, (1, etag))) == (403, "ObjectUnderActiveHold")
    assert xml.request("GET", "/box/held").body == b"held"
    blob.temporary_hold = False
    blob.patch()
    assert complete(xml, upload, (1, etag)).status == 200
    assert xml.request("GET", "/box/held").body == b"new"


def test_an_upload_belongs_to_its_object(xml):
    upload = start(xml, "mine")
    theirs = upload.replace("/mine?", "/yours?")
    for verb, path in (("GET", theirs), ("DELETE", theirs), ("PUT", f"{theirs}&partNumber=1")):
        assert code(xml.request(verb, path, b"x")) == (404, "NoSuchUpload")
    assert xml.request("DELETE", upload).status == 204


def test_an_empty_part_is_the_whole_of_an_empty_object(xml):
    upload = start(xml, "empty")
    etag = put_part(xml, upload, 1, b"")
    assert complete(xml, upload, (1, etag)).status == 200
    assert xml.request("GET", "/box/empty").body == b""
    assert xml.client().bucket("box").get_blob("empty").crc32c == "AAAAAA=="


@pytest.mark.parametrize("part_number", ["0", "10001", "-1", "x", "", "99999999999999999999"])
def test_part_numbers(xml, part_number):
    upload = start(xml, "numbers")
    reply = xml.request("PUT", f"{upload}&partNumber={part_number}", b"x")
    assert code(reply) == (400, "InvalidArgument")
    xml.request("DELETE", upload)


def test_a_part_whose_checksum_does_not_fit_is_no_part(xml):
    upload = start(xml, "sums")
    md5 = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    for header in ({"Content_MD5": md5}, {"x_goog_hash": "crc32c=AAAAAA=="}):
        reply = xml.request("PUT", f"{upload}&partNumber=1", b"x" * 200_000, **header)
        assert code(reply) == (400, "BadDigest")
    assert texts(xml.request("GET", upload), "Part/PartNumber") == []
    xml.request("DELETE", upload)


def test_listing_parts(xml):
    upload = start(xml, "parts")
    etags = [put_part(xml, upload, number, bytes(number)) for number in (1, 3, 10)]
    reply = xml.request("GET", upload)
    assert texts(reply, "Part/PartNumber") == ["1", "3", "10"]
    assert texts(reply, "Part/ETag") == etags
    assert texts(reply, "Part/Size") == ["1", "3", "10"]
    assert texts(reply, "IsTruncated") == ["false"]
    page = xml.request("GET", f"{upload}&max-parts=1&part-number-marker=1")
    assert texts(page, "Part/PartNumber") == ["3"]
    assert (texts(page, "IsTruncated"), texts(page, "NextPartNumberMarker")) == (["true"], ["3"])
    xml.request("DELETE", upload)


def test_listing_uploads(xml):
    started = sorted([start(xml, name) for name in ("list/b", "list/a", "list/a", "list/c")])
    seen, marker = [], ""
    for _ in range(4):
        reply = xml.request("GET", f"/box?uploads&prefix=list/&max-uploads=1{marker}")
        (name,), (upload_id,) = texts(reply, "Upload/Key"), texts(reply, "Upload/UploadId")
        seen.append(f"/box/{name}?uploadId={upload_id}")
        if texts(reply, "IsTruncated") == ["false"]:
            break
        name, upload_id = texts(reply, "NextKeyMarker")[0], texts(reply, "NextUploadIdMarker")[0]
        marker = f"&key-marker={name}&upload-id-marker={upload_id}"
    assert seen == started
    after = xml.request("GET", "/box?uploads&prefix=list/&key-marker=list/a")
    assert texts(after, "Upload/Key") == ["list/b", "list/c"]
    for upload in started:
        xml.request("DELETE", upload)
    assert texts(xml.request("GET", "/box?uploads&prefix=list/"), "IsTruncated") == ["false"]
    assert code(xml.request("GET", "/nothing?uploads")) == (404, "NoSuchBucket")


def test_conditions_are_refused_and_not_ignored(xml):
    for header in ({"x_goog_if_generation_match": "0"}, {"If_None_Match": "*"}):
        reply = xml.request("POST", "/box/conditions?uploads", **header)
        assert code(reply) == (400, "InvalidArgument")


def test_a_bucket_that_goes_takes_its_uploads_with_it(xml):
    before = kept_files(xml)
    bucket = xml.client().create_bucket("leaving")
    reply = xml.request("POST", "/leaving/x?uploads")
    upload = f"/leaving/x?uploadId={texts(reply, 'UploadId')[0]}"
    put_part(xml, upload, 1, b"x" * 200_000)
    bucket.delete()
    xml.client().create_bucket("leaving")
    assert code(xml.request("GET", upload)) == (404, "NoSuchUpload")
    assert kept_files(xml) == before
