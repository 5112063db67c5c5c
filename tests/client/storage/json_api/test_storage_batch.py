"""Batches: calls in one request, each with its own answer, by raw bytes and Google's client."""

import email
import json

import pytest
from google.api_core import exceptions

pytest_plugins = ("client.storage.storage_fixtures",)

PATH = "/batch/storage/v1"


def call(method, path, body="", content_id=None, headers=()):
    lines = ["--B", "Content-Type: application/http"]
    lines += [f"Content-ID: <{content_id}>"] if content_id else []
    lines += ["", f"{method} {path} HTTP/1.1", *headers]
    return [*lines, *([f"Content-Length: {len(body)}"] if body else []), "", body]


def send(box, calls, newline="\r\n", **headers):
    lines = [line for each in calls for line in each]
    body = newline.join([*lines, "--B--", ""]).encode()
    content_type = 'multipart/mixed; boundary="B"'
    return box.request("POST", PATH, body, Content_Type=content_type, **headers)


def answers(reply):
    """Content-ID, status, headers and body of every part."""
    assert reply.status == 200
    head = f"Content-Type: {reply.headers['Content-Type']}\r\n\r\n".encode()
    found = []
    for part in email.message_from_bytes(head + reply.body).get_payload():
        assert part["Content-Type"] == "application/http"
        line, _, rest = part.get_payload().partition("\n")
        inner = email.message_from_string(rest.replace("\r\n", "\n"))
        found.append((part["Content-ID"], int(line.split()[1]), inner, inner.get_payload()))
    return found


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_every_call_has_its_own_answer(box, newline):
    box.upload("a", b"abc")
    box.upload("b%2Fc", b"")
    reply = send(
        box,
        [
            call("PATCH", f"{box.objects}/a", '{"contentType": "x/y"}', "one+1"),
            call("DELETE", f"{box.objects}/b%2Fc"),
            call("GET", f"{box.objects}/nope", content_id="three+3"),
            call("GET", f"{box.objects}?fields=items/name"),
        ],
        newline,
    )
    patched, deleted, missing, listed = answers(reply)
    assert (patched[0], patched[1]) == ("<response-one+1>", 200)
    assert json.loads(patched[3])["contentType"] == "x/y"
    assert patched[2]["Content-Type"] == "application/json; charset=UTF-8"
    assert (deleted[0], deleted[1], deleted[3].strip()) == (None, 204, "")
    assert (missing[0], missing[1]) == ("<response-three+3>", 404)
    assert json.loads(missing[3])["error"]["errors"][0]["reason"] == "notFound"
    assert json.loads(listed[3]) == {"items": [{"name": "a"}]}


def test_outer_headers_hold_where_a_call_has_none(box):
    generation = json.loads(box.upload("a", b"abc").body)["etag"]
    calls = [
        call("GET", f"{box.objects}/a"),
        call("GET", f"{box.objects}/a", headers=[f"If-Match: {generation}"]),
    ]
    statuses = [answer[1] for answer in answers(send(box, calls, If_Match='"another"'))]
    assert statuses == [412, 200]


def test_the_guard_stands_before_every_call(box):
    calls = [
        call("GET", f"{box.objects}/a", headers=["Origin: http://evil.example"]),
        call("GET", f"{box.objects}/a", headers=["Host: evil.example"]),
        call("GET", "http://evil.example/storage/v1/b?project=p"),
    ]
    statuses = [answer[1] for answer in answers(send(box, calls))]
    assert statuses == [403, 404, 200]  # a host within the batch names no other server


def test_media_and_batches_are_no_calls_of_a_batch(box):
    box.upload("a", b"abc")
    paths = (
        f"{box.objects}/a?alt=media",
        f"{box.objects}/a?alt=%6dedia",
        f"{box.objects}/a?%61lt=media",
        f"/download{box.objects}/a",
        f"{box.uploads}?uploadType=media&name=b",
        PATH,
    )
    for answer in answers(send(box, [call("POST", path, "x") for path in paths])):
        assert answer[1] == 501
    assert answers(send(box, [call("GET", paths[0])]))[0][1] == 501


def test_a_call_of_a_batch_cannot_turn_into_a_download_by_another_method(box):
    box.upload("a", b"abc")
    headers = [
        "X-HTTP-Method-Override: GET",
        "Content-Type: application/x-www-form-urlencoded",
    ]
    reply = send(box, [call("POST", f"{box.objects}/a", "alt=media", headers=headers)])
    ((_, status, _, _),) = answers(reply)
    assert status == 501


def test_a_hundred_calls_and_no_more(box):
    box.upload("a", b"")
    assert len(answers(send(box, [call("GET", f"{box.objects}/a")] * 100))) == 100
    reply = send(box, [call("DELETE", f"{box.objects}/a")] * 101)
    assert (reply.status, reply.reason) == (400, "invalid")
    assert box.request("GET", f"{box.objects}/a").status == 200


@pytest.mark.parametrize("body", [b"", b"--B", b"--B\r\n\r\nnonsense\r\n--B--", b"--B--"])
def test_a_batch_that_does_not_read(box, body):
    reply = box.request("POST", PATH, body, Content_Type="multipart/mixed; boundary=B")
    assert (reply.status, reply.reason) == (400, "invalid")


def test_googles_client_sends_batches(own_bucket):
    client = own_bucket.client
    blobs = [own_bucket.blob(f"n{number}") for number in range(3)]
    for blob in blobs:
        blob.upload_from_string(b"x")
    with client.batch():
        for blob in blobs:
            blob.content_language = "de"
            blob.patch()
    assert [blob.content_language for blob in own_bucket.list_blobs()] == ["de"] * 3
    with client.batch():
        for blob in blobs:
            blob.delete(if_generation_match=blob.generation)
    assert list(own_bucket.list_blobs()) == []
    with pytest.raises(exceptions.NotFound), client.batch():
        blobs[0].delete()
