"""What is refused because nobody could be told of it again, or because Google keeps no more."""

import json

import pytest

pytest_plugins = ("client.storage.storage_fixtures",)


def test_more_metadata_than_an_object_may_have_is_refused(box):
    def metadata(size_bytes):
        return json.dumps({"metadata": {"k": "v" * (size_bytes - 1)}}).encode()

    box.upload("x", b"")
    path = f"{box.objects}/x"
    assert box.request("PATCH", path, metadata(8 * 1024)).status == 200
    too_much = [metadata(8 * 1024 + 1), b'{"metadata": {"l": ""}}']
    for body in too_much:
        reply = box.request("PATCH", path, body)
        assert (reply.status, reply.reason) == (400, "invalid")
    assert len(box.request("GET", path).json["metadata"]["k"]) == 8 * 1024 - 1


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_has_not_is_refused(box, constant):
    reply = box.request("PATCH", box.bucket_path, f'{{"website": {{"x": {constant}}}}}'.encode())
    assert (reply.status, reply.reason) == (400, "parseError")


def test_no_composed_object_is_larger_than_an_object_may_be(box, monkeypatch):
    monkeypatch.setattr("localsim.rules.objects.object_copies.MAX_OBJECT_BYTES", 3)
    box.upload("x", b"ab")
    once, twice = (json.dumps({"sourceObjects": [{"name": "x"}] * times}) for times in (1, 2))
    assert box.request("POST", f"{box.objects}/y/compose", once).status == 200
    reply = box.request("POST", f"{box.objects}/y/compose", twice)
    assert (reply.status, reply.reason) == (400, "invalid")
    assert box.media("y") == b"ab"


def test_a_source_whose_name_no_object_can_have_is_refused(box):
    body = b'{"sourceObjects": [{"name": "\\ud800"}]}'
    reply = box.request("POST", f"{box.objects}/y/compose", body)
    assert (reply.status, reply.reason) == (400, "invalid")
