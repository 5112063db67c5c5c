"""Folders of buckets with a hierarchical namespace, byte by byte."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from client.storage.storage_fixtures import (
    HIERARCHICAL,
    Box,
    Reply,
    make_bucket,
    unmade_box,
)

pytest_plugins = ("client.storage.storage_fixtures",)


def made(box: Box, name: str, query: str = "") -> Reply:
    body = json.dumps({"name": name}).encode()
    return box.request("POST", f"{box.bucket_path}/folders{query}", body)


def folder(box: Box, name: str) -> str:
    return f"{box.bucket_path}/folders/{quote(name, safe='')}"


def renamed(box: Box, source: str, target: str, query: str = "") -> Reply:
    path = f"{folder(box, source)}/renameTo/folders/{quote(target, safe='')}{query}"
    return box.request("POST", path)


def folders(box: Box, query: str = "") -> list[str]:
    reply = box.request("GET", f"{box.bucket_path}/folders{query}")
    assert reply.json["kind"] == "storage#folders"
    return [item["name"] for item in reply.json.get("items", [])]


def objects(box: Box, query: str = "") -> list[str]:
    reply = box.request("GET", f"{box.objects}{query}")
    return [item["name"] for item in reply.json.get("items", [])]


def message(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.error["message"]


FLAT = 409, "The bucket does not support hierarchical namespace."
MISSING = 404, "The folder does not exist."
EXISTS = 409, "The folder you tried to create already exists."
ORPHAN = 409, "The parent folder does not exist."
USED = 409, "The folder you tried to delete is not empty."


def test_a_folder_is_a_resource(tree):
    assert made(tree, "a").json["name"] == "a/"
    reply = made(tree, "a/b/")
    assert reply.status == 200
    assert reply.json == tree.request("GET", folder(tree, "a/b")).json
    instant = reply.json.pop("createTime")
    assert re.fullmatch(r"[\d-]+T[\d:]+\.\d{3}Z", instant)
    assert reply.json == {
        "kind": "storage#folder",
        "id": f"{tree.name}/a/b/",
        "selfLink": (f"https://www.googleapis.com/storage/v1/b/{tree.name}/folders/a%2Fb%2F"),
        "name": "a/b/",
        "bucket": tree.name,
        "metageneration": "1",
        "createTime": instant,
        "updateTime": instant,
    }
    shown = tree.request("GET", f"{folder(tree, 'a/')}?fields=name,metageneration")
    assert shown.json == {"name": "a/", "metageneration": "1"}
    assert message(made(tree, "a/b/")) == EXISTS
    assert message(made(tree, "x/y/z/")) == ORPHAN
    assert made(tree, "x/y/z/", "?recursive=true").json["name"] == "x/y/z/"
    assert message(made(tree, "x/y/z/", "?recursive=true")) == EXISTS


def test_an_object_makes_its_folders_and_leaves_them(tree):
    assert tree.upload("ia%2Fib%2Fic.txt", b"payload").status == 200
    assert folders(tree) == ["ia/", "ia/ib/"]
    assert message(tree.request("DELETE", folder(tree, "ia/ib/"))) == USED
    assert tree.request("DELETE", f"{tree.objects}/ia%2Fib%2Fic.txt").status == 204
    assert folders(tree) == ["ia/", "ia/ib/"]
    assert message(tree.request("DELETE", folder(tree, "ia/"))) == USED
    assert tree.request("DELETE", folder(tree, "ia/ib/")).status == 204
    assert tree.request("DELETE", folder(tree, "ia/")).status == 204
    assert message(tree.request("DELETE", folder(tree, "ia/"))) == MISSING
    # The object of the name of a folder is in it.
    assert tree.upload("obj%2F", b"").status == 200
    assert message(made(tree, "obj/")) == EXISTS
    assert message(tree.request("DELETE", folder(tree, "obj/"))) == USED


def test_a_rename_moves_everything_at_once(tree):
    for name in ("ra/one", "ra/c0/two", "rab/three"):
        generation = tree.upload(quote(name, safe=""), name.encode()).json["generation"]
    before = tree.request("GET", folder(tree, "ra/")).json
    reply = renamed(tree, "ra/", "rb", "?ifSourceMetagenerationMatch=1")
    assert reply.status == 200
    operation = reply.json
    assert operation["done"] is True
    assert operation["kind"] == "storage#operation"
    assert operation["name"].startswith(f"projects/_/buckets/{tree.name}/operations/")
    metadata = operation["metadata"]
    common = metadata.pop("commonMetadata")
    assert metadata == {
        "@type": "type.googleapis.com/google.storage.control.v2.RenameFolderMetadata",
        "sourceFolderId": "ra/",
        "destinationFolderId": "rb/",
    }
    assert (common["type"], common["progressPercent"]) == ("rename-folder", 100)
    assert operation["response"] == {
        "@type": "type.googleapis.com/google.storage.control.v2.Folder",
        "name": f"projects/_/buckets/{tree.name}/folders/rb/",
        "metageneration": "1",
        "createTime": before["createTime"],
        "updateTime": common["endTime"],
    }
    assert folders(tree) == ["rab/", "rb/", "rb/c0/"]
    assert objects(tree) == ["rab/three", "rb/c0/two", "rb/one"]
    assert tree.media("rb%2Fc0%2Ftwo") == b"ra/c0/two"
    assert tree.request("GET", f"{tree.objects}/rab%2Fthree").json["generation"] == generation
    path = f"/storage/v1/b/{tree.name}/operations"
    again = tree.request("GET", f"/storage/v1/b/{operation['name'][len('projects/_/buckets/') :]}")
    assert again.json["response"] == operation["response"]
    listed = tree.request("GET", path).json
    assert [each["name"] for each in listed["operations"]] == [operation["name"]]
    assert tree.request("POST", f"{path}/{operation['name'].split('/')[-1]}/cancel").status == 204
    assert tree.request("GET", f"{path}/nothing").status == 404


def test_a_rename_that_cannot_be_changes_nothing(tree):
    for name in ("ra/x", "taken/y"):
        tree.upload(quote(name, safe=""), b"1")
    assert message(renamed(tree, "gone/", "new/")) == MISSING
    assert message(renamed(tree, "ra/", "taken/")) == EXISTS
    assert message(renamed(tree, "ra/", "ra/")) == EXISTS
    assert message(renamed(tree, "ra/", "nowhere/new/")) == ORPHAN
    assert message(renamed(tree, "ra/", "ra/new/")) == (
        400,
        "A folder cannot be moved into itself.",
    )
    assert renamed(tree, "ra/", "new/", "?ifSourceMetagenerationMatch=9").status == 412
    assert renamed(tree, "ra/", "new/", "?ifSourceMetagenerationNotMatch=1").status == 304
    assert renamed(tree, "ra/", "n" * 600).status == 400
    tree.request(
        "PATCH",
        f"{tree.objects}/ra%2Fx",
        b'{"temporaryHold": true}',
        Content_Type="application/json",
    )
    assert renamed(tree, "ra/", "new/").status == 403
    assert objects(tree) == ["ra/x", "taken/y"]
    assert folders(tree) == ["ra/", "taken/"]


def test_a_name_that_would_be_too_long_keeps_the_folder_where_it_is(tree):
    name = "a/" + "d" * 500 + "/" + "e" * 500
    assert tree.upload(quote(name, safe=""), b"").status == 200
    assert renamed(tree, "a/", "b" * 30).status == 400
    assert renamed(tree, "a/", "bb").status == 200


def test_folders_are_listed_page_by_page(tree):
    for name in ("m1/", "n1/n2/n3/", "n1/o/"):
        made(tree, name, "?recursive=true")
    walked, query = [], "?pageSize=1"
    while True:
        page = tree.request("GET", f"{tree.bucket_path}/folders{query}").json
        walked += [item["name"] for item in page["items"]]
        if "nextPageToken" not in page:
            break
        query = f"?pageSize=1&pageToken={page['nextPageToken']}"
    assert walked == ["m1/", "n1/", "n1/n2/", "n1/n2/n3/", "n1/o/"]
    assert folders(tree, "?prefix=n1%2F") == ["n1/", "n1/n2/", "n1/n2/n3/", "n1/o/"]
    assert folders(tree, "?prefix=n1%2F&delimiter=%2F") == ["n1/", "n1/n2/", "n1/o/"]
    assert folders(tree, "?delimiter=%2F") == ["m1/", "n1/"]
    assert folders(tree, "?startOffset=n&endOffset=n1%2Fn2%2F") == ["n1/"]
    assert folders(tree, "?startOffset=z&endOffset=a") == []
    for query in ("?prefix=n", "?delimiter=x", "?pageSize=-1", "?pageToken=!"):
        assert tree.request("GET", f"{tree.bucket_path}/folders{query}").status == 400


def test_folders_are_prefixes_where_that_is_asked_for(tree):
    tree.upload("x%2Fy", b"1")
    tree.upload("z", b"1")
    for name in ("empty/", "x/only/", "w/inner/"):
        made(tree, name, "?recursive=true")

    def prefixes(query: str) -> list[str]:
        return tree.request("GET", f"{tree.objects}?delimiter=%2F{query}").json.get("prefixes", [])

    asked = "&includeFoldersAsPrefixes=true"
    assert prefixes("") == ["x/"]
    assert prefixes(asked) == ["empty/", "w/", "x/"]
    assert prefixes(f"{asked}&prefix=x%2F") == ["x/only/"]
    assert prefixes(f"{asked}&prefix=x") == ["x/"]
    assert prefixes(f"{asked}&prefix=w%2F&includeTrailingDelimiter=true") == ["w/inner/"]
    assert objects(tree, f"?delimiter=%2F{asked}") == ["z"]
    assert objects(tree, f"?delimiter=%2F{asked}&prefix=x%2F") == ["x/y"]
    assert tree.request("GET", f"{tree.objects}?includeFoldersAsPrefixes=true").status == 400
    pages, token = [], ""
    while True:
        path = f"{tree.objects}?delimiter=%2F{asked}&maxResults=1{token}"
        page = tree.request("GET", path).json
        pages += page.get("prefixes", []) + [item["name"] for item in page.get("items", [])]
        if "nextPageToken" not in page:
            break
        token = f"&pageToken={page['nextPageToken']}"
    assert pages == ["empty/", "w/", "x/", "z"]


def test_a_folder_is_deleted_with_all_that_is_in_it(tree):
    for name in ("d/1", "d/e/2", "da/3"):
        tree.upload(quote(name, safe=""), b"1")
    made(tree, "d/f/")
    reply = tree.request("POST", f"{folder(tree, 'd/')}/deleteRecursive")
    assert reply.json["done"] is True
    assert reply.json["metadata"]["folderId"] == "d/"
    assert reply.json["metadata"]["commonMetadata"]["type"] == "delete-folder-recursive"
    assert reply.json["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}
    assert folders(tree) == ["da/"]
    assert objects(tree) == ["da/3"]
    assert message(tree.request("POST", f"{folder(tree, 'd/')}/deleteRecursive")) == MISSING


def test_preconditions_hold_for_folders(tree):
    made(tree, "a/")
    assert tree.request("GET", f"{folder(tree, 'a/')}?ifMetagenerationMatch=2").status == 412
    assert tree.request("GET", f"{folder(tree, 'a/')}?ifMetagenerationNotMatch=1").status == 304
    assert tree.request("DELETE", f"{folder(tree, 'a/')}?ifMetagenerationMatch=2").status == 412
    assert tree.request("DELETE", f"{folder(tree, 'a/')}?ifMetagenerationMatch=1").status == 204


def test_a_flat_bucket_has_no_folders(box):
    assert message(made(box, "a/")) == FLAT
    for verb, path in (
        ("GET", f"{box.bucket_path}/folders"),
        ("GET", folder(box, "a/")),
        ("DELETE", folder(box, "a/")),
        ("POST", f"{folder(box, 'a/')}/renameTo/folders/b%2F"),
        ("POST", f"{folder(box, 'a/')}/deleteRecursive"),
    ):
        assert message(box.request(verb, path)) == FLAT
    assert box.request("GET", "/storage/v1/b/nobodys/folders").status == 404
    assert "items" not in box.request("GET", f"{box.objects}?prefix=a").json


@pytest.mark.parametrize("name", ["../", "a/./b/", "a//b/", "/", "é/"])
def test_a_name_is_never_a_path(tree, name):
    assert made(tree, name, "?recursive=true").json["name"] == name
    assert tree.request("GET", folder(tree, name)).status == 200
    assert renamed(tree, name, "plain/").status == 200
    assert tree.request("GET", folder(tree, name)).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {},
        {"name": 7},
        {"name": "a\n/"},
        {"name": "x" * 512},
        {"name": "x/" * 51},
        {"name": "x" * 1025},
        {"name": "\ud800/"},
    ],
)
def test_a_bad_name_is_refused(tree, body):
    reply = tree.request("POST", f"{tree.bucket_path}/folders", json.dumps(body).encode())
    assert reply.status == 400
    assert folders(tree) == []


def test_what_does_not_go_with_folders_is_refused(module_storage):
    box = unmade_box(module_storage)
    assert "uniform" in message(make_bucket(box, hierarchicalNamespace={"enabled": True}))[1]
    for settings, words in (
        ({"versioning": {"enabled": True}}, "Versioning is not supported"),
        ({"retentionPolicy": {"retentionPeriod": "60"}}, "Retention policy is not supported"),
        ({"hierarchicalNamespace": {"enabled": 1}}, "TYPE_BOOL"),
        ({"storageClass": "RAPID"}, "custom placement config"),
    ):
        status, text = message(make_bucket(box, **{**HIERARCHICAL, **settings}))
        assert (status, words in text) == (400, True)
    assert make_bucket(box, storageClass="RAPID").status == 400


def test_the_namespace_is_that_of_the_first_day(tree, box):
    assert tree.request("GET", tree.bucket_path).json["hierarchicalNamespace"] == {"enabled": True}
    change = json.dumps(HIERARCHICAL).encode()
    reply = box.request("PATCH", box.bucket_path, change)
    assert (reply.status, reply.json["metageneration"]) == (200, "2")
    assert "hierarchicalNamespace" not in reply.json
    off = b'{"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": false}}}'
    assert tree.request("PATCH", tree.bucket_path, off).status == 400
    assert (
        tree.request("PATCH", tree.bucket_path, b'{"versioning": {"enabled": true}}').status == 400
    )
    assert tree.request("PUT", tree.bucket_path, b'{"labels": {"a": "b"}}').status == 400


def test_the_layout_says_whether_there_are_folders(tree, module_storage):
    layout = tree.request("GET", f"{tree.bucket_path}/storageLayout").json
    assert layout["hierarchicalNamespace"] == {"enabled": True}
    zonal = unmade_box(module_storage)
    reply = make_bucket(
        zonal,
        **HIERARCHICAL,
        location="us-central1",
        storageClass="RAPID",
        customPlacementConfig={"dataLocations": ["us-central1-a"]},
    )
    assert (reply.json["location"], reply.json["locationType"]) == ("US-CENTRAL1", "zone")
    assert zonal.request("GET", f"{zonal.bucket_path}/storageLayout").json == {
        "kind": "storage#storageLayout",
        "bucket": zonal.name,
        "location": "US-CENTRAL1",
        "locationType": "zone",
        "hierarchicalNamespace": {"enabled": True},
        "customPlacementConfig": {"dataLocations": ["us-central1-a"]},
    }


def test_a_bucket_goes_when_its_folders_are_gone(tree):
    made(tree, "a/")
    assert tree.request("DELETE", tree.bucket_path).status == 409
    tree.request("DELETE", folder(tree, "a/"))
    assert tree.request("DELETE", tree.bucket_path).status == 204
    assert make_bucket(tree, **HIERARCHICAL).status == 200
    assert "operations" not in tree.request("GET", f"{tree.bucket_path}/operations").json


def test_an_upload_that_ends_after_a_rename_makes_the_old_folder_again(tree):
    start = f"{tree.uploads}?uploadType=resumable&name=old%2Flate"
    session = tree.request("POST", start).headers["Location"]
    tree.upload("old%2Fearly", b"1")
    assert renamed(tree, "old/", "new/").status == 200
    path = session.partition(str(tree.service.port))[2]
    assert tree.request("PUT", path, b"late", Content_Range="bytes 0-3/4").status == 200
    assert objects(tree) == ["new/early", "old/late"]
    assert folders(tree) == ["new/", "old/"]


def test_an_object_moves_with_its_folders(tree):
    tree.upload("a%2Fx", b"1")
    assert tree.request("POST", f"{tree.objects}/a%2Fx/moveTo/o/b%2Fc%2Fy").status == 200
    assert folders(tree) == ["a/", "b/", "b/c/"]
    assert objects(tree) == ["b/c/y"]


def test_uploads_and_renames_at_the_same_time_lose_nothing(tree):
    acknowledged: set[str] = set()

    def upload(writer: int) -> None:
        for number in range(12):
            name = f"{writer}-{number}"
            assert tree.upload(f"here%2Fd%2F{name}", b"1").status == 200
            acknowledged.add(name)

    with ThreadPoolExecutor(4) as writers:
        running = [writers.submit(upload, writer) for writer in range(4)]
        for turn in range(20):
            assert renamed(tree, "here/", f"there-{turn}/").status in (200, 404)
        for each in running:
            each.result()
    names = objects(tree)
    assert sorted(name.rpartition("/")[2] for name in names) == sorted(acknowledged)
    assert {f"{name.rpartition('/')[0]}/" for name in names} <= set(folders(tree))
