"""Signed URLs as Google's client makes them: what they open, and what closes them."""

import base64
import hashlib
import time
from datetime import UTC, datetime, timedelta

import pytest
import requests

from client.storage.signing.signing_fixtures import ROBOT, credentials_of, element, refusal

pytest_plugins = ("client.storage.signing.signing_fixtures",)

VERSIONS = pytest.mark.parametrize("version", ["v2", "v4"])


@VERSIONS
@pytest.mark.parametrize(
    "name", ["plain.txt", "a b/c+d/é/%2F/~.'()*!$&,;=:@", "//lead", "x?y#z", "double%252Fencoded"]
)
def test_an_object_is_written_read_and_deleted(signed, version, name):
    put = signed.sign(name, version, method="PUT", content_type="text/plain")
    written = requests.put(put, data=b"hello", headers={"Content-Type": "text/plain"}, timeout=20)
    assert written.status_code == 200, written.text
    read = requests.get(signed.sign(name, version), timeout=20)
    assert (read.content, read.headers["Content-Type"]) == (b"hello", "text/plain")
    assert signed.bucket.blob(name).exists()
    ranged = requests.get(signed.sign(name, version), headers={"Range": "bytes=1-2"}, timeout=20)
    assert (ranged.status_code, ranged.content) == (206, b"el")
    looked = requests.head(signed.sign(name, version, method="HEAD"), timeout=20)
    assert looked.headers["X-Goog-Stored-Content-Length"] == "5"
    gone = requests.delete(signed.sign(name, version, method="DELETE"), timeout=20)
    assert (gone.status_code, gone.content) == (204, b"")
    assert not signed.bucket.blob(name).exists()


@VERSIONS
def test_a_bucket_is_listed(signed, version):
    signed.bucket.blob(f"listed-{version}/x").upload_from_string(b"x")
    options = {
        "version": version,
        "expiration": timedelta(minutes=1),
        "credentials": signed.credentials,
    }
    url = signed.bucket.generate_signed_url(api_access_endpoint=signed.url, **options)
    assert f"<Key>listed-{version}/x</Key>" in requests.get(url, timeout=20).text
    if version == "v4":  # version 2 signs no parameters, but those of subresources
        options["query_parameters"] = {"prefix": "listed-v4/", "delimiter": "/", "list-type": "2"}
        url = signed.bucket.generate_signed_url(api_access_endpoint=signed.url, **options)
        assert "<KeyCount>1</KeyCount>" in requests.get(url, timeout=20).text


@VERSIONS
def test_a_resumable_upload_is_begun_by_a_signed_url(signed, version):
    name, data = f"resumable-{version}", b"a" * 262144 + b"b" * 10
    url = signed.sign(name, version, method="RESUMABLE", headers={"x-goog-meta-run": "7"})
    headers = {"x-goog-resumable": "start", "x-goog-meta-run": "7"}
    begun = requests.post(url, headers=headers, timeout=20)
    assert begun.status_code == 201, begun.text
    session = begun.headers["Location"]
    first = {"Content-Range": f"bytes 0-262143/{len(data)}"}
    part = requests.put(session, data=data[:262144], headers=first, timeout=20)
    assert part.status_code == 308, part.text
    assert (part.status_code, part.headers["Range"]) == (308, "bytes=0-262143")
    asked = requests.put(session, headers={"Content-Range": f"bytes */{len(data)}"}, timeout=20)
    assert (asked.status_code, asked.headers["Range"]) == (308, "bytes=0-262143")
    last = {"Content-Range": f"bytes 262144-{len(data) - 1}/{len(data)}"}
    done = requests.put(session, data=data[262144:], headers=last, timeout=20)
    assert (done.status_code, done.content) == (200, b"")
    blob = signed.bucket.get_blob(name)
    assert (blob.download_as_bytes(), blob.metadata) == (data, {"run": "7"})
    assert done.headers["X-Goog-Generation"] == str(blob.generation)


def test_a_session_belongs_to_its_object_and_can_be_cancelled(signed):
    url = signed.sign("session", method="RESUMABLE")
    session = requests.post(url, headers={"x-goog-resumable": "start"}, timeout=20).headers[
        "Location"
    ]
    other = session.replace("/box/session", "/box/other")
    assert refusal(requests.put(other, data=b"x", timeout=20))[0] == 404
    assert requests.delete(session, timeout=20).status_code == 499
    assert refusal(requests.put(session, data=b"x", timeout=20))[0] == 404
    wrong = requests.post(url, headers={"x-goog-resumable": "stop"}, timeout=20)
    assert refusal(wrong) == (403, "SignatureDoesNotMatch")
    stop = signed.sign("session", method="POST", headers={"x-goog-resumable": "stop"})
    assert refusal(requests.post(stop, headers={"x-goog-resumable": "stop"}, timeout=20)) == (
        400,
        "InvalidArgument",
    )


@VERSIONS
def test_the_reply_has_the_headers_that_the_url_asks_for(signed, version):
    signed.bucket.blob("overridden").upload_from_string(b"x", content_type="text/plain")
    asked = {"response_type": "image/png", "response_disposition": 'attachment; filename="é.png"'}
    reply = requests.get(signed.sign("overridden", version, **asked), timeout=20)
    assert (reply.status_code, reply.headers["Content-Type"]) == (200, "image/png")
    assert (
        reply.headers["Content-Disposition"].encode("latin-1").decode()
        == asked["response_disposition"]
    )


def test_a_generation_is_chosen(signed):
    signed.bucket.versioning_enabled = True
    signed.bucket.patch()
    blob = signed.bucket.blob("versions")
    blob.upload_from_string(b"first")
    first = blob.generation
    blob.upload_from_string(b"second")
    assert requests.get(signed.sign("versions", generation=first), timeout=20).content == b"first"
    assert requests.get(signed.sign("versions"), timeout=20).content == b"second"


def test_what_is_signed_must_come_with_the_request(signed):
    headers = {"x-goog-meta-a": "1  2", "x-goog-if-generation-match": "0"}
    url = signed.sign("headers", method="PUT", headers=headers)
    assert refusal(requests.put(url, data=b"x", timeout=20)) == (400, "MalformedSecurityHeader")
    assert requests.put(url, data=b"x", headers=headers, timeout=20).status_code == 200
    assert refusal(requests.put(url, data=b"x", headers=headers, timeout=20))[0] == 412
    changed = requests.put(url, data=b"x", headers={**headers, "x-goog-meta-a": "3"}, timeout=20)
    assert refusal(changed) == (403, "SignatureDoesNotMatch")
    more = requests.put(url, data=b"x", headers={**headers, "x-goog-meta-b": "1"}, timeout=20)
    assert refusal(more) == (400, "MalformedSecurityHeader")
    assert element(more, "ParameterName") == "x-goog-meta-b"


@VERSIONS
def test_the_md5_and_type_of_a_body_are_signed(signed, version):
    md5 = base64.b64encode(hashlib.md5(b"hello").digest()).decode()
    name = f"md5-{version}"
    url = signed.sign(name, version, method="PUT", content_md5=md5, content_type="text/plain")
    given = {"Content-MD5": md5, "Content-Type": "text/plain"}
    assert refusal(requests.put(url, data=b"hullo", headers=given, timeout=20)) == (
        400,
        "BadDigest",
    )
    assert requests.put(url, data=b"hello", headers=given, timeout=20).status_code == 200
    other = {**given, "Content-Type": "text/html"}
    assert refusal(requests.put(url, data=b"hello", headers=other, timeout=20)) == (
        403,
        "SignatureDoesNotMatch",
    )


@pytest.mark.parametrize("size_bytes", [5, 3_000_000])
def test_a_signed_body_must_be_the_one_that_was_signed(signed, size_bytes):
    data = b"h" * size_bytes
    headers = {"x-goog-content-sha256": hashlib.sha256(data).hexdigest()}
    url = signed.sign("sha256", method="PUT", headers=headers)
    wrong = requests.put(url, data=data[:-1] + b"x", headers=headers, timeout=20)
    assert refusal(wrong) == (400, "BadDigest")
    assert not signed.bucket.blob("sha256").exists()
    assert requests.put(url, data=data, headers=headers, timeout=20).status_code == 200
    signed.bucket.blob("sha256").delete()


TAMPERED = {
    "another object": lambda url: url.replace("/box/tampered", "/box/other"),
    "another bucket": lambda url: url.replace("/box/", "/bax/"),
    "another parameter": lambda url: url.replace(
        "X-Goog-Signature=", "generation=1&X-Goog-Signature="
    ),
    "a longer life": lambda url: url.replace("Expires=60", "Expires=61"),
    "another signer": lambda url: url.replace("robot%40", "admin%40"),
    "another place": lambda url: url.replace("%2Fauto%2F", "%2Fus%2F"),
    "no signature": lambda url: f"{url.partition('X-Goog-Signature=')[0]}X-Goog-Signature=00",
    "half a signature": lambda url: url[:-256],
}


@pytest.mark.parametrize("change", TAMPERED)
def test_a_changed_url_is_refused_and_says_what_was_signed(signed, change):
    signed.bucket.blob("tampered").upload_from_string(b"what is hidden")
    refused = requests.get(TAMPERED[change](signed.sign("tampered")), timeout=20)
    assert refusal(refused) == (403, "SignatureDoesNotMatch")
    assert b"what is hidden" not in refused.content
    assert element(refused, "Message") == "Access denied."
    assert element(refused, "StringToSign").startswith("GOOG4-RSA-SHA256\n")
    assert element(refused, "CanonicalRequest").startswith("GET\n/")


def test_the_order_of_parameters_and_the_case_of_escapes_do_not_matter(signed):
    signed.bucket.blob("order").upload_from_string(b"x")
    base, _, query = signed.sign("order").partition("?")
    backwards = "&".join(reversed(query.split("&")))
    assert requests.get(f"{base}?{backwards}", timeout=20).content == b"x"
    path = base.removeprefix(signed.url).replace("order", "%6Frder")
    lowered = query.replace("%2F", "%2f").replace("%40", "@")
    assert signed.service.request("GET", f"{path}?{lowered}").body == b"x"
    assert signed.service.request("GET", f"{path}?{lowered}&a").status == 403


BROKEN = {
    "no date": ("X-Goog-Date=[^&]*&", "", "MissingSecurityHeader"),
    "a date that is none": (
        "X-Goog-Date=[0-9]{8}",
        "X-Goog-Date=20261399",
        "MalformedSecurityHeader",
    ),
    "no life": ("X-Goog-Expires=60", "X-Goog-Expires=0", "MalformedSecurityHeader"),
    "eight days": ("X-Goog-Expires=60", "X-Goog-Expires=691200", "MalformedSecurityHeader"),
    "a negative life": ("X-Goog-Expires=60", "X-Goog-Expires=-5", "MalformedSecurityHeader"),
    "a huge life": ("X-Goog-Expires=60", f"X-Goog-Expires={'9' * 4000}", "MalformedSecurityHeader"),
    "another day": ("%2F20[0-9]{6}%2F", "%2F20010203%2F", "MalformedSecurityHeader"),
    "another service": ("%2Fstorage%2F", "%2Fcompute%2F", "MalformedSecurityHeader"),
    "no algorithm": ("X-Goog-Algorithm=[^&]*", "X-Goog-Algorithm=none", "MalformedSecurityHeader"),
    "Amazon's algorithm": ("GOOG4-RSA-SHA256", "AWS4-HMAC-SHA256", "MalformedSecurityHeader"),
    "HMAC with an address": ("GOOG4-RSA-SHA256", "GOOG4-HMAC-SHA256", "InvalidSecurity"),
    "no host": ("SignedHeaders=host", "SignedHeaders=range", "MalformedSecurityHeader"),
    "a header twice": (
        "SignedHeaders=host",
        "SignedHeaders=host%3Bhost",
        "MalformedSecurityHeader",
    ),
    "letters": ("Signature=..", "Signature=zz", "MalformedSecurityHeader"),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_signature_is_named(signed, change):
    import re

    pattern, replacement, code = BROKEN[change]
    url, count = re.subn(pattern, replacement, signed.sign("broken"))
    assert count == 1
    refused = requests.get(url, timeout=20)
    assert refusal(refused) == (403 if code == "InvalidSecurity" else 400, code)


def test_a_signature_has_its_time(signed, monkeypatch):
    signed.bucket.blob("time").upload_from_string(b"x")
    long_ago = int(time.time()) - 5
    refused = requests.get(signed.sign("time", "v2", expiration=long_ago), timeout=20)
    assert refusal(refused) == (400, "ExpiredToken")
    assert element(refused, "Details") == f"Request has expired: {long_ago}"
    now = datetime.now(UTC)
    for moment, life_s, expected in (
        (now - timedelta(seconds=70), 60, (400, "ExpiredToken")),
        (now - timedelta(days=3), 604800, None),
        (now + timedelta(minutes=5), 60, None),
        (now + timedelta(hours=1), 60, (403, "RequestTimeTooSkewed")),
    ):
        monkeypatch.setattr("google.cloud.storage._signing._NOW", lambda _zone, at=moment: at)
        reply = requests.get(signed.sign("time", expiration=life_s), timeout=20)
        assert (refusal(reply) if reply.status_code != 200 else None) == expected


@VERSIONS
def test_only_the_keys_of_the_account_sign_for_it(signed, version):
    from cryptography.hazmat.primitives.asymmetric import rsa

    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for credentials in (credentials_of(stranger), credentials_of(stranger, f"x{ROBOT}")):
        refused = requests.get(signed.sign("x", version, credentials=credentials), timeout=20)
        assert refusal(refused) == (403, "SignatureDoesNotMatch")


def test_one_way_to_authenticate_is_enough(signed):
    headers = {"Authorization": "Bearer x"}
    refused = requests.get(signed.sign("x"), headers=headers, timeout=20)
    assert refusal(refused) == (400, "InvalidArgument")


def test_a_bucket_may_be_in_the_name_of_the_host(signed):
    signed.bucket.blob("a b").upload_from_string(b"x")
    port = signed.service.port
    host = f"box.localhost:{port}"
    url = signed.sign("a b", bucket_bound_hostname=host, api_access_endpoint=None)
    path = url.removeprefix(f"http://{host}")
    assert path.startswith("/a%20b?")
    assert signed.service.request("GET", path, Host=host).body == b"x"
    assert signed.service.request("GET", path, Host=f"bax.localhost:{port}").status == 403
    of_path = signed.sign("a b", "v2").partition("?")[2]  # version 2 signs the bucket's name
    assert signed.service.request("GET", f"/a%20b?{of_path}", Host=host).body == b"x"
    assert signed.service.request("GET", "/?prefix=a%20b", Host=host).status == 200
    assert signed.service.request("GET", "/", Host=f"box.example.com:{port}").status == 403
