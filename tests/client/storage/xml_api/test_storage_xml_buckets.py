"""Buckets made, deleted and set up in the XML API, and listings of all generations."""

import re

import pytest

from client.storage.xml_api.xml_wire import code, put_object

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")
PLACE = (
    b"<CreateBucketConfiguration><LocationConstraint>%s</LocationConstraint>%s"
    b"</CreateBucketConfiguration>"
)
CLASS = b"<StorageClass>NEARLINE</StorageClass>"


@pytest.fixture
def made(xml):
    """A bucket that boto would make."""
    body = PLACE % (b"us-central1", CLASS)
    assert xml.request("PUT", "/xml-made", body, x_goog_project_id="p").status == 200
    yield xml.client().bucket("xml-made")
    xml.request("DELETE", "/xml-made")


def test_a_bucket_is_made_with_its_place_and_class(made):
    made.reload()
    assert (made.location, made.storage_class) == ("US-CENTRAL1", "NEARLINE")


def test_a_bucket_needs_a_project_and_a_free_name(xml, made):
    nobody = xml.request("PUT", "/xml-other", b"")
    assert code(nobody) == (400, "MissingProjectId")
    again = xml.request("PUT", "/xml-made", b"", x_goog_project_id="p")
    assert code(again) == (409, "BucketAlreadyOwnedByYou")


def test_only_an_empty_bucket_is_deleted(xml, made):
    put_object(xml, "/xml-made/x")
    full = xml.request("DELETE", "/xml-made")
    assert code(full) == (409, "BucketNotEmpty")
    xml.request("DELETE", "/xml-made/x")
    assert xml.request("DELETE", "/xml-made").status == 204
    gone = xml.request("DELETE", "/xml-made")
    assert code(gone) == (404, "NoSuchBucket")


def versioning(xml, status=None):
    if status is None:
        return xml.request("GET", "/xml-made?versioning").body
    body = f"<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>"
    return xml.request("PUT", "/xml-made?versioning", body.encode())


def test_versioning_is_set_and_shown(xml, made):
    assert b"<VersioningConfiguration></VersioningConfiguration>" in versioning(xml)
    for status, is_enabled in (("Enabled", True), ("Suspended", False)):
        assert versioning(xml, status).status == 200
        assert f"<Status>{status}</Status>".encode() in versioning(xml)
        made.reload()
        assert made.versioning_enabled is is_enabled
    wrong = versioning(xml, "Maybe")
    assert code(wrong) == (400, "MalformedXML")
    assert xml.request("GET", "/xml-made/x?versioning").status == 501


def test_a_listing_of_versions_has_all_generations_in_pages(xml, made):
    versioning(xml, "Enabled")
    for name in ("a", "a", "b/c"):
        put_object(xml, f"/xml-made/{name}")
    whole = xml.request("GET", "/xml-made?versions").body.decode()
    assert re.findall("<Key>(.*?)</Key>", whole) == ["a", "a", "b/c"]
    assert re.findall("<IsLatest>(.*?)</IsLatest>", whole) == ["false", "true", "true"]
    folded = xml.request("GET", "/xml-made?versions&delimiter=/").body.decode()
    assert re.findall("<Prefix>([^<]+)</Prefix>", folded) == ["b/"]
    first = xml.request("GET", "/xml-made?versions&max-keys=1").body.decode()
    (marker,) = re.findall("<NextMarker>(.*?)</NextMarker>", first)
    (generation,) = re.findall("<NextGenerationMarker>(.*?)</NextGenerationMarker>", first)
    rest = f"/xml-made?versions&marker={marker}&generation-marker={generation}"
    second = xml.request("GET", rest).body.decode()
    generations = re.findall("<Generation>(.*?)</Generation>", whole)
    assert re.findall("<Generation>(.*?)</Generation>", second) == generations[1:]
    for key, each in zip(("a", "a", "b/c"), generations, strict=True):
        assert xml.request("DELETE", f"/xml-made/{key}?generation={each}").status == 204
    assert "<Version>" not in xml.request("GET", "/xml-made?versions").body.decode()
