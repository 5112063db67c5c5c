"""Listing objects through the XML API, in either version of it."""

import re
import urllib.parse

import pytest

from client.storage.xml_api.xml_wire import code, put_object, texts

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")


@pytest.fixture(scope="module")
def tree(xml):
    xml.client().create_bucket("tree")
    for name in ("a", "a/1", "a/2", "a/b/3", "b", "c/4", "ü", "z%01"):
        put_object(xml, f"/tree/{name}" if name.isascii() else f"/tree/{urllib.parse.quote(name)}")
    return xml


NAMES = ["a", "a/1", "a/2", "a/b/3", "b", "c/4", "z\x01", "ü"]


def listed(reply):
    """Names and prefixes, decoded."""
    assert reply.status == 200, reply.body
    found = (texts(reply, "Contents/Key"), texts(reply, "CommonPrefixes/Prefix"))
    return tuple([urllib.parse.unquote(name) for name in names] for names in found)


def pages(tree, query, following, limit):
    """All pages of a listing, followed by the element that names the next one."""
    names, prefixes, marker = [], [], ""
    for _ in range(20):
        reply = tree.request("GET", f"/tree?encoding-type=url&max-keys={limit}&{query}{marker}")
        page = listed(reply)
        assert len(page[0]) + len(page[1]) <= limit
        names, prefixes = names + page[0], prefixes + page[1]
        if texts(reply, "IsTruncated") == ["false"]:
            return names, prefixes
        element, parameter = following
        value = texts(reply, element)[0]
        if parameter == "marker":
            value = urllib.parse.unquote(value)
        marker = f"&{parameter}={urllib.parse.quote(value)}"
    raise AssertionError("a listing without an end")


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("query", "following"),
    [
        ("list-type=2", ("NextContinuationToken", "continuation-token")),
        ("list-type=1", ("NextMarker", "marker")),
    ],
)
@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("", (NAMES, [])),
        ("&delimiter=/", (["a", "b", "z\x01", "ü"], ["a/", "c/"])),
        ("&prefix=a/", (["a/1", "a/2", "a/b/3"], [])),
        ("&prefix=a/&delimiter=/", (["a/1", "a/2"], ["a/b/"])),
        ("&prefix=nothing", ([], [])),
    ],
)
def test_listings_page_and_fold(tree, limit, query, following, scope, expected):
    assert pages(tree, query + scope, following, limit) == expected


def test_what_a_listing_says_of_an_object(tree):
    written = tree.request("HEAD", "/tree/b")
    reply = tree.request("GET", "/tree?list-type=2&prefix=b&start-after=a")
    assert texts(reply, "Contents/ETag") == [written.headers["ETag"]]
    assert texts(reply, "Contents/Size") == ["3"]
    assert texts(reply, "Contents/Generation") == [written.headers["X-Goog-Generation"]]
    assert re.fullmatch(
        r"[0-9-]{10}T[0-9:]{8}\.[0-9]{3}Z", texts(reply, "Contents/LastModified")[0]
    )
    assert (texts(reply, "KeyCount"), texts(reply, "StartAfter")) == (["1"], ["a"])
    assert listed(tree.request("GET", "/tree?start-after=b&list-type=2&prefix=c")) == (["c/4"], [])
    assert listed(tree.request("GET", "/tree?max-keys=0&prefix=a")) == ([], [])


def test_a_name_that_xml_cannot_hold_is_never_another_name(tree):
    plain = tree.request("GET", "/tree?prefix=z")
    assert b"<Key>z&#1;</Key>" in plain.body
    assert listed(tree.request("GET", "/tree?prefix=z&encoding-type=url")) == (["z\x01"], [])


@pytest.mark.parametrize(
    "query", ["max-keys=-1", "max-keys=x", "list-type=3", "encoding-type=xml", "prefix=%ff"]
)
def test_listings_that_make_no_sense(tree, query):
    assert code(tree.request("GET", f"/tree?{query}")) == (400, "InvalidArgument")


def test_a_continuation_token_that_is_none(tree):
    for token in ("%ff", "@@", "/w=="):
        reply = tree.request("GET", f"/tree?list-type=2&continuation-token={token}")
        assert code(reply) == (400, "InvalidArgument")
