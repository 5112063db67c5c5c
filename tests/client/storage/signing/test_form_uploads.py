"""Uploads by a form under a signed policy: what its conditions let through, and what not."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
import requests

from client.storage.signing.signing_fixtures import credentials_of, element, refusal

pytest_plugins = ("client.storage.signing.signing_fixtures",)

POLICY = (400, "InvalidPolicyDocument")


@pytest.fixture
def policy(signed):
    """The URL and fields of a form, by Google's own library."""

    def make(key, conditions=(), fields=None, expiration=timedelta(minutes=1), credentials=None):
        return signed.bucket.client.generate_signed_post_policy_v4(
            "box",
            key,
            expiration=expiration,
            conditions=list(conditions),
            fields=fields or {},
            credentials=credentials or signed.credentials,
        )

    return make


def post(form, /, data=b"hello", name="chosen.txt", **changes):
    fields = {field: value for field, value in {**form["fields"], **changes}.items() if value}
    files = {"file": (name, data, "text/x-of-the-part")}
    return requests.post(form["url"], fields, files=files, timeout=20, allow_redirects=False)


def test_a_form_writes_an_object_with_its_metadata(signed, policy):
    fields = {"content-type": "text/plain", "cache-control": "no-store", "x-goog-meta-run": "7é"}
    conditions = [{"bucket": "box"}, ["starts-with", "$Content-Type", "text/pla"]]
    reply = post(policy("forms/$simple é", conditions, fields))
    assert (reply.status_code, reply.content) == (204, b"")
    blob = signed.bucket.get_blob("forms/$simple é")
    assert blob.download_as_bytes() == b"hello"
    seen = (blob.content_type, blob.cache_control, blob.metadata)
    assert seen == ("text/plain", "no-store", {"run": "7é"})
    assert reply.headers["Location"] == f"{signed.url}/box/forms/%24simple%20%C3%A9"


def test_a_form_says_who_may_read_its_object(signed, policy):
    assert post(policy("shown", fields={"acl": "public-read"})).status_code == 204
    assert "READER" in signed.bucket.get_blob("shown").acl.all().get_roles()


def test_the_name_may_be_that_of_the_chosen_file(signed, policy):
    conditions = [["starts-with", "$key", "chosen/"]]
    named = policy("chosen/${filename}", conditions)
    assert post(named).status_code == 204
    assert signed.bucket.blob("chosen/chosen.txt").exists()


@pytest.mark.parametrize(
    ("asked", "status"), [("200", 200), ("201", 201), ("204", 204), ("404", 204)]
)
def test_the_form_chooses_the_status(signed, policy, asked, status):
    reply = post(policy("status", fields={"success_action_status": asked}))
    assert reply.status_code == status
    if status == 201:
        assert "<PostResponse><Location>" in reply.text
        assert "<Bucket>box</Bucket><Key>status</Key><ETag>" in reply.text


def test_the_form_chooses_where_the_browser_goes(signed, policy):
    target = "http://127.0.0.1:1/done?x=1"
    reply = post(policy("a b", fields={"success_action_redirect": target}))
    assert reply.status_code == 303
    assert reply.headers["Location"].startswith(f"{target}&bucket=box&key=a+b&etag=%22")
    elsewhere = post(policy("a b", fields={"success_action_redirect": "javascript:alert(1)"}))
    assert elsewhere.status_code == 204


def test_the_bucket_may_be_in_the_form_or_in_its_policy(signed, policy):
    """Google's client for Node.js leaves it out of the URL where it has an endpoint of its own."""
    one = {**policy("elsewhere"), "url": signed.url}
    assert post(one).status_code == 204
    assert post(one, bucket="box").status_code == 204
    assert refusal(post(one, bucket="other-bucket"))[0] in (400, 404)
    nowhere = requests.post(signed.url, {"key": "k"}, files={"file": b"x"}, timeout=20)
    assert refusal(nowhere) == (404, "NoSuchBucket")


def test_a_field_that_no_condition_names_is_refused(policy):
    one = policy("named")
    assert post(one, **{"x-ignore-me": "1"}).status_code == 204
    refused = post(one, **{"x-goog-meta-a": "1"})
    assert refusal(refused) == POLICY
    assert element(refused, "Details") == "Policy did not reference x-goog-meta-a"


def test_a_field_that_no_header_has_is_refused_though_the_policy_allows_it(signed, policy):
    unknown = policy("unknown", fields={"x-goog-random": "1"})
    assert refusal(post(unknown)) == (400, "InvalidArgument")
    assert not signed.bucket.blob("unknown").exists()


def test_conditions_hold_or_the_form_is_refused(signed, policy):
    one = policy("eq", [["eq", "$x-goog-meta-a", "1"], ["starts-with", "$x-goog-meta-b", ""]])
    wanted = {"x-goog-meta-a": "1", "x-goog-meta-b": "anything"}
    assert post(one, **wanted).status_code == 204
    for changes in ({"x-goog-meta-a": "2"}, {"x-goog-meta-a": None}, {"key": "other"}):
        assert refusal(post(one, **{**wanted, **changes})) == POLICY
    elsewhere = {**one, "url": one["url"].replace("/box", "/bax")}
    assert refusal(post(elsewhere, **wanted))[0] == 404
    signed.bucket.client.create_bucket("bax")
    assert refusal(post(elsewhere, **wanted)) == POLICY


@pytest.mark.parametrize(
    ("size_bytes", "code"),
    [(9, "EntityTooSmall"), (10, None), (20, None), (21, "EntityTooLarge"), (0, "EntityTooSmall")],
)
def test_the_file_has_a_size_within_the_range(signed, policy, size_bytes, code):
    name = f"sized-{size_bytes}"
    reply = post(policy(name, [["content-length-range", 10, 20]]), data=b"x" * size_bytes)
    if code is None:
        assert reply.status_code == 204
    else:
        assert refusal(reply) == (400, code)
    assert signed.bucket.blob(name).exists() == (code is None)


def test_a_large_file_passes_and_a_too_large_one_is_not_received_whole(signed, policy):
    data = bytes(range(256)) * 8192
    assert post(policy("large"), data=data).status_code == 204
    assert signed.bucket.blob("large").download_as_bytes() == data
    refused = post(policy("larger", [["content-length-range", 0, 1000]]), data=data)
    assert refusal(refused) == (400, "EntityTooLarge")
    assert not list((signed.service.directory / "storage" / "incoming").iterdir())


def test_a_policy_ends(policy, monkeypatch):
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    monkeypatch.setattr("google.cloud.storage.client._NOW", lambda _zone: long_ago)
    assert refusal(post(policy("old"))) == (400, "ExpiredToken")


def test_a_changed_policy_or_signature_is_refused(signed, policy):
    from cryptography.hazmat.primitives.asymmetric import rsa

    one = policy("forged")
    document = json.loads(base64.b64decode(one["fields"]["policy"]))
    document["conditions"].append(["starts-with", "$x-goog-meta-a", ""])
    forged = base64.b64encode(json.dumps(document).encode()).decode()
    wrong = (403, "SignatureDoesNotMatch")
    assert refusal(post(one, policy=forged)) == wrong
    assert refusal(post(one, **{"x-goog-signature": "00" * 256})) == wrong
    stranger = credentials_of(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    assert refusal(post(policy("forged", credentials=stranger))) == wrong
    for field in ("x-goog-signature", "x-goog-credential", "x-goog-date", "x-goog-algorithm"):
        assert refusal(post(one, **{field: None})) == (400, "MissingSecurityHeader")
    assert not signed.bucket.blob("forged").exists()


def test_a_form_without_a_policy_is_as_good_as_any_request_here(signed):
    reply = requests.post(f"{signed.url}/box", {"key": "open"}, files={"file": b"x"}, timeout=20)
    assert reply.status_code == 204
    assert signed.bucket.blob("open").download_as_bytes() == b"x"


def send(signed, body, boundary="B"):
    kind = f"multipart/form-data; boundary={boundary}"
    return signed.service.request("POST", "/box", body, Content_Type=kind)


def part(name, value, more=b""):
    head = f'--B\r\nContent-Disposition: form-data; name="{name}"'.encode()
    return head + more + b"\r\n\r\n" + value + b"\r\n"


FILE = b'; filename="f"'


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", b"IncorrectNumberOfFilesInPostRequest"),
        (b"--B--\r\n", b"IncorrectNumberOfFilesInPostRequest"),
        (part("key", b"k") + b"--B--\r\n", b"IncorrectNumberOfFilesInPostRequest"),
        (part("file", b"x", FILE) + b"--B--\r\n", b"InvalidArgument"),
        (part("key", b"k") + part("file", b"x", FILE), b"InvalidArgument"),
        (b"preamble\r\n" + part("key", b"k"), b"InvalidArgument"),
        (b"--Bx\r\n" + part("key", b"k"), b"InvalidArgument"),
        (b"--B\r\n\r\nno name\r\n--B--\r\n", b"InvalidArgument"),
        (part("key", b"\xff") + part("file", b"x", FILE) + b"--B--\r\n", b"InvalidArgument"),
        (part("key", b"k" * 2_000_000), b"MaxPostPreDataLengthExceeded"),
        (b"--B\r\n" + b"a" * 2_000_000, b"MaxPostPreDataLengthExceeded"),
        (b"--B\r\nx: y\r\n" * 200_000, b"MaxPostPreDataLengthExceeded"),
        (part("key", b"..") + part("file", b"x", FILE) + b"--B--\r\n", b"InvalidArgument"),
        (
            part("key", b"k") + part("policy", b"e30=") + part("file", b"x") + b"--B--\r\n",
            b"MissingSecurityHeader",
        ),
    ],
)
def test_a_malformed_form_is_refused(signed, body, code):
    reply = send(signed, body)
    assert (reply.status, code in reply.body) == (400, True), reply.body


def test_the_bytes_of_a_file_may_look_like_a_boundary(signed):
    data = b"\r\n--\r\n--BB\r--B\r\n--A--\r\n"
    body = part("key", b"odd") + part("file", data, FILE) + b"--B--\r\n"
    for size in (1, 7, len(body)):
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        kind = {"Content-Type": "multipart/form-data; boundary=B"}
        reply = requests.post(f"{signed.url}/box", iter(chunks), headers=kind, timeout=20)
        assert reply.status_code == 204, reply.text
        assert signed.bucket.blob("odd").download_as_bytes() == data
