"""Encryption keys, request by request: headers, reasons, and what a client library never sends."""

import base64
import gzip
import json
import os

import google_crc32c
import pytest

pytest_plugins = ("client.storage.storage_fixtures",)

UNIT = 256 * 1024
SMALL, LARGE = b"what nobody may read " * 20, os.urandom(4 * UNIT)
KMS = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
TEXT, SHA256 = (
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "Yw3NKWbEM2aRElRIu7JbT/QSpJxzLbLIq8G4WBvXEN0=",
)
OTHER_TEXT, OTHER_SHA256 = (
    "//////////////////////////////////////////8=",
    "r5YTdg9yY1+9tEpaCmPDnxKvMPlQpu5clxvhiOicQFE=",
)


def headers(text, sha256, kind=""):
    values = {"Algorithm": "AES256", "Key": text, "Key_Sha256": sha256}
    return {f"X_Goog_{kind}Encryption_{name}": value for name, value in values.items()}


KEY, OTHER = headers(TEXT, SHA256), headers(OTHER_TEXT, OTHER_SHA256)
OF_SOURCE = headers(TEXT, SHA256, "Copy_Source_")


def compose(box, name, *sources, query="", destination=None, **given):
    parts = [{"name": source} for source in sources]
    body = json.dumps({"sourceObjects": parts, "destination": destination or {}})
    path = f"{box.objects}/{name}/compose?{query}"
    return box.request("POST", path, body.encode(), Content_Type="application/json", **given)


def test_replies_say_which_key_it_is(box):
    made = box.upload("x", SMALL, **KEY)
    assert made.json["customerEncryption"] == {"encryptionAlgorithm": "AES256", "keySha256": SHA256}
    media = box.request("GET", f"{box.objects}/x?alt=media", **KEY)
    assert media.body == SMALL
    for reply in (made, media):
        assert reply.headers["X-Goog-Encryption-Algorithm"] == "AES256"
        assert reply.headers["X-Goog-Encryption-Key-Sha256"] == SHA256
        assert reply.headers["X-Goog-Hash"].startswith(f"crc32c={made.json['crc32c']}")
    part = box.request("GET", f"{box.objects}/x?alt=media", Range="bytes=17-40", **KEY)
    assert (part.status, part.body) == (206, SMALL[17:41])
    assert part.headers["Content-Range"] == f"bytes 17-40/{len(SMALL)}"
    box.upload("y", SMALL, f"&kmsKeyName={KMS}")
    kms = box.request("GET", f"{box.objects}/y?alt=media")
    assert kms.headers["X-Goog-Encryption-Kms-Key-Name"] == f"{KMS}/cryptoKeyVersions/1"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "resourceIsEncryptedWithCustomerEncryptionKey"),
        (OTHER, "customerEncryptionKeyIsIncorrect"),
        (KEY | {"X_Goog_Encryption_Algorithm": "AES"}, "customerEncryptionAlgorithmIsInvalid"),
        (KEY | {"X_Goog_Encryption_Key": "AAAA"}, "customerEncryptionKeyFormatIsInvalid"),
        (
            KEY | {"X_Goog_Encryption_Key_Sha256": OTHER_SHA256},
            "customerEncryptionKeySha256IsInvalid",
        ),
        ({"X_Goog_Encryption_Key_Sha256": SHA256}, "customerEncryptionAlgorithmIsInvalid"),
    ],
)
def test_a_read_without_the_right_key_says_what_is_wrong(box, given, reason):
    box.upload("x", SMALL, **KEY)
    reply = box.request("GET", f"{box.objects}/x?alt=media", **given)
    assert reply.status == 400
    assert SMALL[:20] not in reply.body
    assert TEXT.encode() not in reply.body
    if given:
        described = box.request("GET", f"{box.objects}/x", **given)
        assert (described.status, described.reason) == (400, reason)
    if len(given) == 3 and given != OTHER:
        refused = box.upload("y", SMALL, **given)
        assert (refused.status, refused.reason) == (400, reason)


def test_a_multipart_upload_and_one_of_nothing(box):
    resource = json.dumps({"name": "x", "contentType": "text/x"}).encode()
    lines = (b"--b", b"Content-Type: application/json", b"", resource, b"--b", b"", LARGE, b"--b--")
    body, path = b"\r\n".join([*lines, b""]), f"{box.uploads}?uploadType=multipart"
    related = {"Content_Type": "multipart/related; boundary=b"}
    made = box.request("POST", path, body, **related, **KEY)
    assert made.json["customerEncryption"]["keySha256"] == SHA256
    assert box.request("GET", f"{box.objects}/x?alt=media", **KEY).body == LARGE
    assert box.upload("empty", b"", **KEY).json["customerEncryption"]["keySha256"] == SHA256
    assert box.request("GET", f"{box.objects}/empty?alt=media").status == 400
    named = body.replace(b'"text/x"', f'"text/x", "kmsKeyName": "{KMS}"'.encode())
    assert box.request("POST", path, named, **related).json["kmsKeyName"].startswith(KMS)
    assert box.media("x") == LARGE


def test_a_wrong_checksum_is_refused_as_ever(box):
    crc32c = base64.b64encode(google_crc32c.value(SMALL).to_bytes(4, "big")).decode()
    for data in (SMALL, LARGE):
        reply = box.upload("x", data[:-1] + b"?", X_Goog_Hash=f"crc32c={crc32c}", **KEY)
        assert (reply.status, reply.reason) == (400, "invalid")
    assert box.upload("x", SMALL, X_Goog_Hash=f"crc32c={crc32c}", **KEY).status == 200
    md5 = box.request("GET", f"{box.objects}/x", **KEY).json["md5Hash"]
    assert box.upload("x", SMALL, Content_MD5=md5, **KEY).status == 200


def test_only_the_first_request_of_a_resumable_upload_brings_the_key(box):
    path = f"{box.uploads}?uploadType=resumable&name=x"
    session = box.request("POST", path, b"{}", **KEY).headers["Location"]
    session = session.removeprefix(box.service.url)
    keys = [found for found in box.incoming if found.suffix == ".key"]
    assert len(keys) == 1
    assert base64.b64decode(TEXT) not in keys[0].read_bytes()
    first = box.request(
        "PUT", session, LARGE[:UNIT], Content_Range=f"bytes 0-{UNIT - 1}/*", **OTHER
    )
    assert (first.status, first.headers["Range"]) == (308, f"bytes=0-{UNIT - 1}")
    range_ = f"bytes {UNIT}-{len(LARGE) - 1}/{len(LARGE)}"
    done = box.request("PUT", session, LARGE[UNIT:], Content_Range=range_)
    assert done.json["customerEncryption"]["keySha256"] == SHA256
    assert done.json["crc32c"]
    assert [found for found in box.incoming if found.suffix == ".key"] == []
    assert box.request("GET", f"{box.objects}/x?alt=media", **KEY).body == LARGE
    assert box.media("x") != LARGE


def test_a_cancelled_upload_leaves_no_key(box):
    path = f"{box.uploads}?uploadType=resumable&name=x"
    session = box.request("POST", path, b"{}", **KEY).headers["Location"]
    assert box.request("DELETE", session.removeprefix(box.service.url)).status == 499
    assert [found for found in box.incoming if found.suffix == ".key"] == []


def test_compose_under_one_key(box):
    for name, data in (("a", SMALL), ("b", LARGE), ("c", b"c")):
        box.upload(name, data, **KEY)
    box.upload("other", SMALL, **OTHER)
    box.upload("plain", SMALL)
    made = compose(box, "whole", "a", "b", "c", "a", **KEY).json
    assert (made["componentCount"], made["customerEncryption"]["keySha256"]) == (4, SHA256)
    whole = SMALL + LARGE + b"c" + SMALL
    crc32c = google_crc32c.value(whole).to_bytes(4, "big")
    assert base64.b64decode(made["crc32c"]) == crc32c
    assert box.request("GET", f"{box.objects}/whole?alt=media", **KEY).body == whole
    for given, sources, reason in (
        ({}, "ab", "resourceIsEncryptedWithCustomerEncryptionKey"),
        (OTHER, "ab", "customerEncryptionKeyIsIncorrect"),
        (KEY, ("a", "other"), "customerEncryptionKeyIsIncorrect"),
        (KEY, ("plain",), "resourceNotEncryptedWithCustomerEncryptionKey"),
    ):
        reply = compose(box, "none", *sources, **given)
        assert (reply.status, reply.reason) == (400, reason)
    assert box.request("GET", f"{box.objects}/none").status == 404


def test_compose_under_a_key_of_cloud_kms(box):
    box.upload("a", SMALL)
    box.upload("b", LARGE)
    for given in ({"query": f"kmsKeyName={KMS}"}, {"destination": {"kmsKeyName": KMS}}):
        made = compose(box, "whole", "a", "b", **given).json
        assert made["kmsKeyName"] == f"{KMS}/cryptoKeyVersions/1"
        assert box.media("whole") == SMALL + LARGE
    back = compose(box, "back", "whole", "a").json
    assert "kmsKeyName" not in back
    assert box.media("back") == SMALL + LARGE + SMALL


def test_a_copy_takes_the_key_of_its_source(box):
    box.upload("x", SMALL, **KEY)
    path = f"{box.objects}/x/copyTo/b/{box.name}/o/y"
    assert box.request("POST", path).reason == "resourceIsEncryptedWithCustomerEncryptionKey"
    assert "customerEncryption" not in box.request("POST", path, **OF_SOURCE).json
    assert box.media("y") == SMALL
    made = box.request("POST", path, **OF_SOURCE, **OTHER).json
    assert made["customerEncryption"]["keySha256"] == OTHER_SHA256
    assert made["md5Hash"] == box.upload("z", SMALL).json["md5Hash"]
    assert box.request("GET", f"{box.objects}/y?alt=media", **OTHER).body == SMALL


def test_every_call_of_a_rewrite_brings_the_keys(box):
    data = LARGE * 3
    box.upload("x", data, **KEY)
    path = f"{box.objects}/x/rewriteTo/b/{box.name}/o/y?maxBytesRewrittenPerCall=1048576"
    body = b'{"storageClass": "NEARLINE"}'

    def rewrite(token, **given):
        query = f"&rewriteToken={token}" if token else ""
        return box.request("POST", path + query, body, Content_Type="application/json", **given)

    assert rewrite("").reason == "resourceIsEncryptedWithCustomerEncryptionKey"
    step = rewrite("", **OF_SOURCE, **OTHER).json
    assert (step["done"], step["totalBytesRewritten"]) == (False, "1048576")
    assert rewrite(step["rewriteToken"], **OF_SOURCE).status == 400
    step = rewrite(step["rewriteToken"], **OF_SOURCE, **OTHER).json
    done = rewrite(step["rewriteToken"], **OF_SOURCE, **OTHER).json
    assert done["resource"]["customerEncryption"]["keySha256"] == OTHER_SHA256
    assert box.request("GET", f"{box.objects}/y?alt=media", **OTHER).body == data


def test_a_move_needs_no_key_and_shows_no_checksum(box):
    box.upload("x", SMALL, **KEY)
    moved = box.request("POST", f"{box.objects}/x/moveTo/o/y")
    assert "crc32c" not in moved.json
    assert box.request("GET", f"{box.objects}/y?alt=media", **KEY).body == SMALL


def test_the_md5_that_nobody_waited_for_is_calculated_with_the_key(box):
    box.upload("x", SMALL, "&fields=name", **KEY)
    assert "md5Hash" not in box.request("GET", f"{box.objects}/x").json
    known = box.request("GET", f"{box.objects}/x", **KEY).json["md5Hash"]
    assert known == box.upload("y", SMALL).json["md5Hash"]
    box.upload("z", LARGE, f"&fields=name&kmsKeyName={KMS}")
    known = box.request("GET", f"{box.objects}/z").json["md5Hash"]
    assert known == box.upload("y", LARGE).json["md5Hash"]


def test_a_refused_copy_leaves_no_file_behind(box):
    box.upload("x", LARGE)
    kept = box.service.directory / "storage" / "objects"
    before = set(kept.rglob("*"))
    path = f"{box.objects}/x/copyTo/b/{box.name}/o/x?ifGenerationMatch=0"
    assert box.request("POST", path, **KEY).status == 412
    assert {found for found in kept.rglob("*") if found.is_file()} <= before
    made = box.request("POST", path.partition("?")[0], **KEY)
    assert made.status == 200
    files = {found for found in kept.rglob("*") if found.is_file()} - before
    assert len(files) == 1


def test_gzip_is_unpacked_behind_the_key(box):
    packed = gzip.compress(SMALL * 1000)
    box.upload("x", packed, "&contentEncoding=gzip", **KEY)
    assert box.request("GET", f"{box.objects}/x?alt=media", **KEY).body == SMALL * 1000
    raw = box.request("GET", f"{box.objects}/x?alt=media", Accept_Encoding="gzip", **KEY)
    assert raw.body == packed


def test_sessions_of_the_xml_api_take_keys(box):
    session = box.request("POST", f"/{box.name}/x", x_goog_resumable="start", **KEY)
    assert session.status == 201, session.body
    path = session.headers["Location"].partition(box.service.url)[2]
    assert box.request("PUT", path, SMALL).status == 200
    assert box.request("GET", f"{box.objects}/x?alt=media").status == 400
    assert box.request("GET", f"{box.objects}/x?alt=media", **KEY).body == SMALL


def test_forms_take_the_default_key_of_the_bucket(box):
    change = json.dumps({"encryption": {"defaultKmsKeyName": KMS}}).encode()
    assert box.request("PATCH", f"/storage/v1/b/{box.name}", change).status == 200
    parts = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("key", "x"), ("file", "abc"))
    )
    sent = {"Content_Type": "multipart/form-data; boundary=b"}
    made = box.request("POST", f"/{box.name}", f"{parts}--b--\r\n".encode(), **sent)
    assert made.status == 204, made.body
    shown = box.request("GET", f"{box.objects}/x").json
    assert shown["kmsKeyName"] == f"{KMS}/cryptoKeyVersions/1"
    assert box.request("GET", f"{box.objects}/x?alt=media").body == b"abc"
