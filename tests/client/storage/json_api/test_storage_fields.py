"""Partial responses of Cloud Storage: what `fields` leaves of every reply, and what it refuses."""

import json

import pytest

pytest_plugins = ("client.storage.storage_fixtures",)

SIZE_0 = {"size": "0"}


@pytest.fixture
def listed(box):
    lines = ["--B", "", '{"name": "a", "metadata": {"x.y": "1", "z": "2"}}', "--B", "", "abc"]
    body = "\n".join([*lines, "--B--"]).encode()
    path = f"{box.uploads}?uploadType=multipart"
    assert (
        box.request("POST", path, body, Content_Type="multipart/related; boundary=B").status == 200
    )
    box.upload("b/1", b"")
    box.upload("c", b"")
    return box


def got(box, path, fields):
    reply = box.request("GET", f"{path}fields={fields}")
    assert reply.status == 200
    return json.loads(reply.body)


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ("kind", {"kind": "storage#objects"}),
        ("prefixes", {"prefixes": ["b/"]}),
        ("nextPageToken", {}),
        ("items(name)", {"items": [{"name": "a"}, {"name": "c"}]}),
        ("items/name", {"items": [{"name": "a"}, {"name": "c"}]}),
        ("kind,items/name", {"kind": "storage#objects", "items": [{"name": "a"}, {"name": "c"}]}),
        (
            "items(name,size),prefixes",
            {
                "items": [{"name": "a", "size": "3"}, {"name": "c", "size": "0"}],
                "prefixes": ["b/"],
            },
        ),
        ("items/metadata", {"items": [{"metadata": {"x.y": "1", "z": "2"}}, {}]}),
        ("items/metadata/x.y", {"items": [{"metadata": {"x.y": "1"}}, {}]}),
        (
            "items(metadata(z),name)",
            {"items": [{"metadata": {"z": "2"}, "name": "a"}, {"name": "c"}]},
        ),
        ("items/*/z", {"items": [{"metadata": {"z": "2"}}, {}]}),
        ("*/name", {"items": [{"name": "a"}, {"name": "c"}], "prefixes": []}),
        (
            "items/name, items/size",
            {"items": [{"name": "a", "size": "3"}, {"name": "c", "size": "0"}]},
        ),
    ],
)
def test_of_a_listing(listed, fields, left):
    assert got(listed, f"{listed.objects}?delimiter=/&", fields.replace(" ", "%20")) == left


@pytest.mark.parametrize(
    "fields", ["*", "", "kind,nextPageToken,prefixes,items", "items/*,kind,prefixes"]
)
def test_everything(listed, fields):
    whole = json.loads(listed.request("GET", f"{listed.objects}?delimiter=/").body)
    assert got(listed, f"{listed.objects}?delimiter=/&", fields) == whole


def test_of_other_replies(listed):
    assert got(listed, f"{listed.objects}/a?", "size,metadata/z") == {
        "size": "3",
        "metadata": {"z": "2"},
    }
    assert got(
        listed, f"{listed.bucket_path}?", "name,iamConfiguration/publicAccessPrevention"
    ) == {
        "name": listed.name,
        "iamConfiguration": {"publicAccessPrevention": "inherited"},
    }
    names = got(listed, f"/storage/v1/b?project=p&prefix={listed.name}&", "items/name")
    assert names == {"items": [{"name": listed.name}]}
    uploaded = listed.upload("d", b"abc", query="&fields=size")
    assert json.loads(uploaded.body) == {"size": "3"}
    copied = listed.request(
        "POST", f"{listed.objects}/a/rewriteTo/b/{listed.name}/o/e?fields=done,resource/size"
    )
    assert json.loads(copied.body) == {"done": True, "resource": {"size": "3"}}
    assert listed.request("GET", f"{listed.objects}/a?alt=media&fields=size").body == b"abc"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("colour", "colour"),
        ("items(name,colour)", "colour"),
        ("name", "name"),
        ("items/name/first", "first"),
        ("items(name", "items(name"),
        ("items)", "items)"),
        ("items()", "items()"),
        ("a//b", "a//b"),
        (",", ","),
        ("(" * 200, "(" * 200),
        ("items/" * 200 + "x", None),
    ],
)
def test_a_bad_selector_changes_nothing_and_is_named(box, fields, told):
    reply = box.request("GET", f"{box.objects}?fields={fields}")
    assert (reply.status, reply.reason) == (400, "invalidParameter")
    assert reply.error["errors"][0]["location"] == "fields"
    assert told is None or reply.error["message"] == f"Invalid field selection {told}"
    assert box.upload("x", b"", query="&fields=nothing").status == 400
    assert box.request("GET", f"{box.objects}/x").status == 404
