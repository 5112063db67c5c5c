"""Managed folders and their policies, byte by byte."""

import json
from urllib.parse import quote

import pytest

from client.storage.storage_fixtures import UNIFORM, Box, Reply, new_box

pytest_plugins = ("client.storage.storage_fixtures",)

VIEWER = {"role": "roles/storage.objectViewer", "members": ["user:a@example.com"]}


@pytest.fixture
def uniform(module_storage) -> Box:
    """A bucket with uniform access that no other test has."""
    return new_box(module_storage, **UNIFORM)


def made(box: Box, name: str) -> Reply:
    body = json.dumps({"name": name}).encode()
    return box.request("POST", f"{box.bucket_path}/managedFolders", body)


def managed(box: Box, name: str) -> str:
    return f"{box.bucket_path}/managedFolders/{quote(name, safe='')}"


def test_a_managed_folder_from_make_to_delete(uniform):
    reply = made(uniform, "m1")
    instant = reply.json["createTime"]
    assert reply.json == {
        "kind": "storage#managedFolder",
        "id": f"{uniform.name}/m1/",
        "selfLink": (
            f"https://www.googleapis.com/storage/v1/b/{uniform.name}/managedFolders/m1%2F"
        ),
        "name": "m1/",
        "bucket": uniform.name,
        "metageneration": "1",
        "createTime": instant,
        "updateTime": instant,
    }
    assert uniform.request("GET", managed(uniform, "m1")).json == reply.json
    again = made(uniform, "m1/")
    assert again.error["message"] == "The specified managed folder already exists."
    assert again.status == 409
    uniform.upload("m1%2Finside", b"x")
    used = uniform.request("DELETE", managed(uniform, "m1/"))
    assert used.status == 409
    assert used.error["message"] == "The managed folder you tried to delete is not empty."
    stale = f"{managed(uniform, 'm1/')}?allowNonEmpty=true&ifMetagenerationMatch=9"
    assert uniform.request("DELETE", stale).status == 412
    assert uniform.request("DELETE", f"{managed(uniform, 'm1/')}?allowNonEmpty=true").status == 204
    assert uniform.request("GET", managed(uniform, "m1/")).status == 404
    assert uniform.media("m1%2Finside") == b"x"


def test_managed_folders_are_listed(uniform):
    path = f"{uniform.bucket_path}/managedFolders"
    assert uniform.request("GET", path).json == {"kind": "storage#managedFolders"}
    for name in ("child/of/missing/", "child/", "other/"):
        assert made(uniform, name).status == 200
    page = uniform.request("GET", f"{path}?prefix=ch&pageSize=1").json
    assert [item["name"] for item in page["items"]] == ["child/"]
    page = uniform.request("GET", f"{path}?prefix=ch&pageToken={page['nextPageToken']}").json
    assert [item["name"] for item in page["items"]] == ["child/of/missing/"]
    assert "nextPageToken" not in page
    nested = uniform.request("DELETE", managed(uniform, "child/"))
    assert nested.status == 409


def test_a_policy_of_its_own(uniform):
    made(uniform, "scope/")
    path = f"{managed(uniform, 'scope/')}/iam"
    fresh = uniform.request("GET", path).json
    assert fresh == {
        "kind": "storage#policy",
        "resourceId": f"projects/_/buckets/{uniform.name}/managedFolders/scope/",
        "etag": "CAA=",
    }
    policy = {"etag": "CAA=", "bindings": [VIEWER]}
    written = uniform.request("PUT", path, json.dumps(policy).encode()).json
    assert (written["etag"], written["version"]) == ("CAE=", 1)
    assert written["bindings"] == [VIEWER]
    assert uniform.request("PATCH", uniform.bucket_path, b'{"labels": {"k": "v"}}').status == 200
    assert uniform.request("GET", path).json == written
    assert uniform.request("PUT", path, json.dumps(policy).encode()).status == 412
    wrong = {"bindings": [{"role": "roles/pubsub.viewer", "members": ["allUsers"]}]}
    reply = uniform.request("PUT", path, json.dumps(wrong).encode())
    assert "roles/pubsub.viewer is not supported" in reply.error["message"]
    asked = f"{path}/testPermissions?permissions=storage.objects.get"
    assert uniform.request("GET", asked).json["permissions"] == ["storage.objects.get"]
    asked = f"{path}/testPermissions?permissions=storage.buckets.get"
    assert uniform.request("GET", asked).error["message"] == "Invalid argument."
    assert uniform.request("GET", f"{managed(uniform, 'gone/')}/iam").status == 404


def test_without_uniform_access_there_are_none(box):
    for reply in (made(box, "m/"), box.request("GET", managed(box, "m/"))):
        assert reply.status == 412
        assert "Uniform bucket-level access is required" in reply.error["message"]


def test_with_folders_each_managed_one_is_a_folder_too(tree):
    made(tree, "h1/h2/")
    assert tree.request("DELETE", managed(tree, "h1/h2/")).status == 204
    assert tree.request("GET", f"{tree.bucket_path}/folders/h1%2Fh2%2F").status == 200
    made(tree, "h1/h2/")
    reply = tree.request("POST", f"{tree.bucket_path}/folders/h1%2F/renameTo/folders/g%2F")
    assert reply.status == 200
    assert tree.request("GET", managed(tree, "g/h2/")).status == 200
    assert tree.request("DELETE", tree.bucket_path).status == 409


@pytest.mark.parametrize("name", ["", "../", "./", "d/" * 16, "a\r/", "m" * 1024])
def test_a_bad_name_is_refused(uniform, name):
    assert made(uniform, name).status == 400


def test_a_managed_folder_is_a_prefix_when_it_is_asked_for(tree):
    made = tree.request("POST", f"{tree.bucket_path}/managedFolders", b'{"name": "managed"}')
    assert made.status == 200
    tree.upload("parent%2Fx", b"1")
    listed = tree.request("GET", f"{tree.objects}?delimiter=/")
    assert listed.json["prefixes"] == ["parent/"]
    asked = tree.request("GET", f"{tree.objects}?delimiter=/&includeFoldersAsPrefixes=true")
    assert asked.json["prefixes"] == ["managed/", "parent/"]


def test_a_bucket_that_is_to_have_no_folders_says_so(module_storage):
    flat = new_box(module_storage, hierarchicalNamespace={"enabled": False})
    shown = flat.request("GET", flat.bucket_path).json
    assert shown["hierarchicalNamespace"] == {"enabled": False}
