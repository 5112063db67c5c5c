"""Encryption keys in the XML API: objects, copies, and uploads in parts."""

import os
from xml.etree import ElementTree

import pytest

from client.storage.xml_api.xml_wire import code, document, put_object, texts

pytest_plugins = ("client.storage.xml_api.xml_fixtures",)

KMS = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
TEXT, SHA256 = (
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "Yw3NKWbEM2aRElRIu7JbT/QSpJxzLbLIq8G4WBvXEN0=",
)
KEY = {
    "x_goog_encryption_algorithm": "AES256",
    "x_goog_encryption_key": TEXT,
    "x_goog_encryption_key_sha256": SHA256,
}
OTHER = KEY | {
    "x_goog_encryption_key": "//////////////////////////////////////////8=",
    "x_goog_encryption_key_sha256": "r5YTdg9yY1+9tEpaCmPDnxKvMPlQpu5clxvhiOicQFE=",
}
OF_SOURCE = {name.replace("x_goog", "x_goog_copy_source"): value for name, value in KEY.items()}
DATA, PART = b"what nobody may read " * 20, os.urandom(5 * 1024 * 1024)


def details(reply):
    return ElementTree.fromstring(reply.body).find("Details").text


def test_an_object_comes_back_with_its_key_alone(xml):
    made = put_object(xml, "/box/keyed", DATA, **KEY)
    assert made.headers["X-Goog-Encryption-Key-Sha256"] == SHA256
    read = xml.request("GET", "/box/keyed", **KEY)
    assert (read.status, read.body) == (200, DATA)
    assert read.headers["X-Goog-Encryption-Algorithm"] == "AES256"
    assert read.headers["X-Goog-Hash"]
    assert code(xml.request("GET", "/box/keyed")) == (
        400, "ResourceIsEncryptedWithCustomerEncryptionKey"
    )  # fmt: skip
    assert code(xml.request("GET", "/box/keyed", **OTHER)) == (
        400, "CustomerEncryptionKeyIsIncorrect"
    )  # fmt: skip
    put_object(xml, "/box/unkeyed", DATA)
    assert code(xml.request("GET", "/box/unkeyed", **KEY)) == (
        400, "ResourceNotEncryptedWithCustomerEncryptionKey"
    )  # fmt: skip
    two = dict(list(KEY.items())[:2])
    assert code(xml.request("PUT", "/box/keyed", DATA, **two)) == (400, "InvalidArgument")


def test_head_needs_no_key_and_shows_no_checksum(xml):
    put_object(xml, "/box/head", DATA, x_goog_meta_run="7", **KEY)
    without = xml.request("HEAD", "/box/head")
    assert (without.status, without.body) == (200, b"")
    assert without.headers["Content-Length"] == str(len(DATA))
    assert without.headers["x-goog-meta-run"] == "7"
    assert without.headers["X-Goog-Hash"] is None
    with_key = xml.request("HEAD", "/box/head", **KEY)
    assert with_key.headers["X-Goog-Hash"].startswith("crc32c=")
    assert with_key.headers["ETag"] == without.headers["ETag"]
    assert xml.request("HEAD", "/box/head", If_None_Match="*").status == 304


def test_a_copy_takes_the_key_of_its_source(xml):
    put_object(xml, "/box/source", DATA, **KEY)
    copy = {"x_goog_copy_source": "/box/source"}
    assert code(xml.request("PUT", "/box/copy", **copy)) == (
        400, "ResourceIsEncryptedWithCustomerEncryptionKey"
    )  # fmt: skip
    assert xml.request("PUT", "/box/copy", **copy, **OF_SOURCE).status == 200
    assert xml.request("GET", "/box/copy").body == DATA
    assert xml.request("PUT", "/box/copy", **copy, **OF_SOURCE, **OTHER).status == 200
    assert xml.request("GET", "/box/copy", **OTHER).body == DATA


def test_an_upload_in_parts_holds_to_the_key_it_began_with(xml):
    upload = begin(xml, "parts", **KEY)
    what = "The requested multipart upload is encrypted by a"
    for given, name, words in (
        ({}, "ResourceIsEncryptedWithCustomerEncryptionKey", f"{what} customer-supplied"),
        (OTHER, "CustomerEncryptionKeyIsIncorrect", f"{what} different customer-supplied key."),
    ):
        refused = xml.request("PUT", f"{upload}&partNumber=1", b"x", **given)
        assert code(refused) == (400, name)
        assert details(refused).startswith(words)
    etags = [
        xml.request("PUT", f"{upload}&partNumber={number}", data, **KEY).headers["ETag"]
        for number, data in ((1, PART), (2, b"the end"))
    ]
    assert xml.request("GET", upload).status == 200
    listed = document((1, etags[0]), (2, etags[1]))
    assert code(xml.request("POST", upload, listed))[0] == 400
    done = xml.request("POST", upload, listed, **KEY)
    assert (done.status, done.headers["X-Goog-Encryption-Key-Sha256"]) == (200, SHA256)
    assert xml.request("GET", "/box/parts", **KEY).body == PART + b"the end"
    around = xml.request("GET", "/box/parts", Range=f"bytes={len(PART) - 9}-{len(PART)}", **KEY)
    assert around.body == PART[-9:] + b"t"
    assert xml.request("GET", "/box/parts").status == 400
    kept = b"".join(path.read_bytes() for path in (xml.directory / "storage").rglob("objects/*/*"))
    assert PART[:64] not in kept


def test_an_upload_that_began_without_a_key_takes_none(xml):
    upload = begin(xml, "unkeyed")
    refused = xml.request("PUT", f"{upload}&partNumber=1", b"x", **KEY)
    assert code(refused) == (400, "ResourceNotEncryptedWithCustomerEncryptionKey")
    assert xml.request("DELETE", upload, **KEY).status == 204


def test_a_key_of_cloud_kms_in_a_header(xml):
    made = put_object(xml, "/box/kms", DATA, x_goog_encryption_kms_key_name=KMS)
    assert made.headers["X-Goog-Encryption-Kms-Key-Name"] == f"{KMS}/cryptoKeyVersions/1"
    assert xml.request("GET", "/box/kms").body == DATA
    upload = begin(xml, "kms-parts", x_goog_encryption_kms_key_name=KMS)
    etag = xml.request("PUT", f"{upload}&partNumber=1", PART).headers["ETag"]
    assert xml.request("POST", upload, document((1, etag))).status == 200
    read = xml.request("GET", "/box/kms-parts")
    assert read.body == PART
    assert read.headers["X-Goog-Encryption-Kms-Key-Name"].startswith(KMS)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        (KEY | {"x_goog_encryption_kms_key_name": KMS}, (409, "Conflict")),
        (
            {"x_goog_encryption_kms_key_name": KMS.replace("/p/", "/q/")},
            (403, "AccessDenied"),
        ),
        ({"x_goog_encryption_kms_key_name": "k"}, (400, "InvalidArgument")),
    ],
)
def test_what_no_object_can_have_is_refused_at_the_start(xml, given, refused):
    assert code(xml.request("PUT", "/box/none", DATA, **given)) == refused
    assert code(xml.request("POST", "/box/none?uploads", **given)) == refused


def begin(xml, name, **headers):
    reply = xml.request("POST", f"/box/{name}?uploads", **headers)
    assert reply.status == 200, reply.body
    return f"/box/{name}?uploadId={texts(reply, 'UploadId')[0]}"
