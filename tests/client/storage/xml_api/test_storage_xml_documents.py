"""The document that completes a multipart upload, and what else may come in its place."""

import pytest

from client.storage.xml_api.xml_wire import code, complete, document, put_part, start

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")

MIB = 1024 * 1024
BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&b;</ETag></Part>"
    "</CompleteMultipartUpload>"
)
OUTSIDE = BOMB.replace('"aaaaaaaaaa"', 'SYSTEM "file:///etc/passwd"').replace("&b;", "&a;")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"<CompleteMultipartUpload>",
        b"<Delete/>",
        b"<CompleteMultipartUpload><Part/></CompleteMultipartUpload>",
        document(("1e3", "x")),
        BOMB.encode(),
        OUTSIDE.encode(),
        b"<?xml version='1.0' encoding='utf-7'?><CompleteMultipartUpload/>",
        b"<?xml version='1.0' encoding='nonesuch'?><CompleteMultipartUpload/>",
        b"<?php echo 1 ?><CompleteMultipartUpload/>",
        b"<a>" * 100_000,
        document(("1", "\0")),
        b"<CompleteMultipartUpload>" + b"<Part>" * 20_000,
        b"<CompleteMultipartUpload>" + b" " * 3 * MIB,
        document(*((number, "0" * 32) for number in range(1, 10_002))),
    ],
    ids=lambda body: body[:24].decode("latin-1"),
)
def test_a_document_that_is_none_changes_nothing(xml, body):
    upload = start(xml, "document")
    etag = put_part(xml, upload, 1, b"x")
    assert code(xml.request("POST", upload, body)) == (400, "MalformedXML")
    assert complete(xml, upload, (1, etag)).status == 200
