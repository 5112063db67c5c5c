"""Access control lists in the XML API: its documents, its headers, and what it refuses."""

import pytest
from google.cloud import storage

from client.storage.xml_api.xml_wire import code, complete, put_object, put_part, start, texts

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")

ENTRY = "<Entry><Scope type='{}'>{}</Scope><Permission>{}</Permission></Entry>"
EMAIL = "<EmailAddress>ann@example.com</EmailAddress>"


def document(*entries) -> bytes:
    rows = "".join(ENTRY.format(*entry) for entry in entries)
    return f"<AccessControlList><Entries>{rows}</Entries></AccessControlList>".encode()


def entries(xml, name) -> dict[str, str]:
    bucket = xml.client().bucket("box")
    acl = bucket.acl if name is None else storage.Blob(name, bucket).acl
    acl.reload()
    return {entry["entity"]: entry["role"] for entry in acl}


def test_a_list_is_shown_and_can_be_written_back(xml):
    put_object(xml, "/box/same")
    before = entries(xml, "same")
    for path in ("/box?acl", "/box?defaultObjectAcl", "/box/same?acl"):
        shown = xml.request("GET", path)
        assert b"<AccessControlList><Owner><ID>00b4903a97" in shown.body
        assert texts(shown, "Entries/Entry/Permission")[:2] == ["FULL_CONTROL"] * 2
        assert xml.request("PUT", path, shown.body).status == 200
        assert xml.request("GET", path).body == shown.body
    assert entries(xml, "same") == before


def test_every_scope_is_understood(xml):
    put_object(xml, "/box/scopes")
    owner, *_ = texts(xml.request("GET", "/box/scopes?acl"), "Entries/Entry/Scope/EmailAddress")
    body = document(
        ("UserByEmail", EMAIL, "FULL_CONTROL"),
        ("UserById", f"<ID>{'a1' * 32}</ID><Name>Ann</Name>", "READ"),
        ("GroupByEmail", "<EmailAddress>tpu@example.com</EmailAddress>", "READ"),
        ("GroupByDomain", "<Domain>Example.com</Domain>", "READ"),
        ("AllUsers", "", "READ"),
        ("AllAuthenticatedUsers", "", "READ"),
    )
    assert xml.request("PUT", "/box/scopes?acl", body).status == 200
    assert entries(xml, "scopes") == {
        "user-ann@example.com": "OWNER",
        f"user-{'a1' * 32}": "READER",
        "group-tpu@example.com": "READER",
        "domain-example.com": "READER",
        "allUsers": "READER",
        "allAuthenticatedUsers": "READER",
        f"user-{owner}": "OWNER",
    }
    shown = xml.request("GET", "/box/scopes?acl")
    assert b"<Scope type='AllUsers'></Scope><Permission>READ</Permission>" in shown.body


def test_a_bucket_may_let_others_write(xml):
    body = document(("UserByEmail", EMAIL, "WRITE"))
    assert xml.request("PUT", "/box?acl", body).status == 200
    assert entries(xml, None)["user-ann@example.com"] == "WRITER"
    xml.request("PUT", "/box?acl", x_goog_acl="project-private")
    assert "user-ann@example.com" not in entries(xml, None)


@pytest.mark.parametrize("header", ["x_goog_acl", "x_amz_acl"])
def test_a_header_names_the_list_of_what_is_written(xml, header):
    put_object(xml, "/box/put", **{header: "public-read"})
    assert entries(xml, "put")["allUsers"] == "READER"
    put_object(xml, "/box/copied", b"", x_goog_copy_source="/box/put")
    assert "allUsers" not in entries(xml, "copied")
    given = {"x_goog_copy_source": "/box/put", header: "authenticated-read"}
    put_object(xml, "/box/copied", b"", **given)
    assert entries(xml, "copied")["allAuthenticatedUsers"] == "READER"
    upload = start(xml, "parts", **{header: "public-read"})
    assert complete(xml, upload, (1, put_part(xml, upload, 1, b"abc"))).status == 200
    assert entries(xml, "parts")["allUsers"] == "READER"
    assert xml.request("PUT", "/box/put?acl", **{header: "private"}).status == 200
    assert list(entries(xml, "put").values()) == ["OWNER"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<AccessControlList>",
        b"<Other/>",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><AccessControlList/>",
        b"<AccessControlList><Entry/></AccessControlList>",
        document(("UserByName", EMAIL, "READ")),
        document(("UserByEmail", "<ID>x</ID>", "READ")),
        document(("UserByEmail", EMAIL, "EXECUTE")),
        document(("UserByEmail", "<Domain><ID>x</ID></Domain>", "READ")),
    ],
)
def test_documents_that_are_none_are_refused(xml, body):
    put_object(xml, "/box/kept", x_goog_acl="public-read")
    assert code(xml.request("PUT", "/box/kept?acl", body)) == (400, "MalformedACLError")
    assert "allUsers" in entries(xml, "kept")


def test_names_and_roles_that_are_none_are_refused(xml):
    put_object(xml, "/box/named")
    for path, headers, body in (
        ("/box/named", {"x_goog_acl": "public"}, b"abc"),
        ("/box/named?acl", {"x_goog_acl": "public-read-write"}, b""),
        ("/box/named?acl", {}, document(("UserByEmail", EMAIL, "WRITE"))),
        ("/box?acl", {"x_goog_acl": "bucket-owner-read"}, b""),
    ):
        assert code(xml.request("PUT", path, body, **headers)) == (400, "InvalidArgument")
    assert code(xml.request("GET", "/box/nothing?acl")) == (404, "NoSuchKey")
    assert code(xml.request("GET", "/nothing?acl")) == (404, "NoSuchBucket")
