"""The preconditions of every method: what does not hold changes nothing."""

import json

import pytest

pytest_plugins = ("client.storage.storage_fixtures",)

CALLS = {
    "get": ("GET", "{objects}/x", b""),
    "media": ("GET", "{objects}/x?alt=media", b""),
    "patch": ("PATCH", "{objects}/x", b'{"contentType": "a/b"}'),
    "update": ("PUT", "{objects}/x", b"{}"),
    "delete": ("DELETE", "{objects}/x", b""),
    "insert": ("POST", "{uploads}?uploadType=media&name=x", b"new"),
    "compose": ("POST", "{objects}/x/compose", b'{"sourceObjects": [{"name": "y"}]}'),
    "copy": ("POST", "{objects}/y/copyTo/b/{name}/o/x", b""),
    "rewrite": ("POST", "{objects}/y/rewriteTo/b/{name}/o/x", b""),
    "move": ("POST", "{objects}/y/moveTo/o/x", b""),
}
OF_SOURCES = ("copy", "rewrite", "move")


@pytest.fixture
def pair(box):
    """A bucket with `x` and `y`, and the generations of both."""
    made = {name: box.upload(name, name.encode()).json["generation"] for name in ("x", "y")}
    return box, made


def call(box, name, query):
    method, path, body = CALLS[name]
    path = path.format(objects=box.objects, uploads=box.uploads, name=box.name)
    return box.request(method, f"{path}{'&' if '?' in path else '?'}{query}", body)


def states(box):
    items = box.request("GET", box.objects).json["items"]
    return [(item["name"], item["generation"], item["metageneration"]) for item in items]


@pytest.mark.parametrize("name", CALLS)
def test_the_four_conditions(pair, name):
    box, made = pair
    before = states(box)
    for query, status in (
        ("ifGenerationMatch=1", 412),
        ("ifGenerationMatch=0", 412),
        (f"ifGenerationNotMatch={made['x']}", 304),
        ("ifMetagenerationMatch=2", 412),
        ("ifMetagenerationNotMatch=1", 304),
    ):
        reply = call(box, name, query)
        assert reply.status == status, query
        if status != 304:
            words = reply.message if name == "media" else reply.error["message"]
            assert words == "At least one of the pre-conditions you specified did not hold."
        assert states(box) == before
    good = f"ifGenerationMatch={made['x']}&ifGenerationNotMatch=1"
    good += "&ifMetagenerationMatch=1&ifMetagenerationNotMatch=2"
    assert call(box, name, good).status in (200, 204)


@pytest.mark.parametrize("name", OF_SOURCES)
def test_the_four_conditions_of_a_source(pair, name):
    box, made = pair
    before = states(box)
    for query in (
        "ifSourceGenerationMatch=1",
        f"ifSourceGenerationNotMatch={made['y']}",
        "ifSourceMetagenerationMatch=2",
        "ifSourceMetagenerationNotMatch=1",
    ):
        assert call(box, name, query).status in (304, 412), query
        assert states(box) == before
    good = f"ifSourceGenerationMatch={made['y']}&ifSourceGenerationNotMatch=1"
    good += "&ifSourceMetagenerationMatch=1&ifSourceMetagenerationNotMatch=2"
    assert call(box, name, good).status == 200


@pytest.mark.parametrize("kind", ["multipart", "resumable"])
def test_the_other_ways_of_an_upload(box, kind):
    box.upload("x", b"old")
    if kind == "multipart":
        body = b'--B\n\n{"name": "x"}\n--B\n\nnew\n--B--'
        path = f"{box.uploads}?uploadType=multipart&ifGenerationMatch=0"
        reply = box.request("POST", path, body, Content_Type="multipart/related; boundary=B")
    else:
        path = f"{box.uploads}?uploadType=resumable&name=x&ifGenerationMatch=0"
        session = box.request("POST", path, b"{}").headers["Location"]
        reply = box.request("PUT", session.removeprefix(box.service.url), b"new")
    assert (reply.status, reply.reason) == (412, "conditionNotMet")
    assert box.media("x") == b"old"


@pytest.mark.parametrize("method", ["GET", "PATCH", "PUT", "DELETE"])
def test_the_conditions_of_a_bucket(box, method):
    body = json.dumps({"labels": {"a": "b"}}).encode() if method in ("PATCH", "PUT") else b""
    for query in ("ifMetagenerationMatch=2", "ifMetagenerationNotMatch=1"):
        assert box.request(method, f"{box.bucket_path}?{query}", body).status in (304, 412)
    assert box.request("GET", box.bucket_path).json["metageneration"] == "1"
    assert box.request(method, f"{box.bucket_path}?ifMetagenerationMatch=1", body).status in (
        200,
        204,
    )


def test_etags_do_as_well(pair):
    box, _ = pair
    etag = box.request("GET", f"{box.objects}/x").headers["ETag"]
    for method in ("GET", "PATCH", "DELETE"):
        assert box.request(method, f"{box.objects}/x", b"", If_Match='"no"').status == 412
    assert box.request("GET", f"{box.objects}/x", If_None_Match=etag).status == 304
    assert box.request("PATCH", f"{box.objects}/x", b"{}", If_Match=etag).status == 200
