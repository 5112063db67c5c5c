"""Whatever is sent as a signature, policy or form: an answer, or a refusal in Google's words."""

import base64
import contextlib
import json
from types import SimpleNamespace

import pytest
from client.storage.signing.hmac_signing import v2_headers, v4_headers
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.objects.access.hmac_keys import HmacKey, KeyState
from localsim.rules.objects.storage_model import StorageError
from localsim.services.storage.signing.sent_requests import SentRequest
from localsim.services.storage.signing.signature_errors import SignatureError
from localsim.services.storage.signing.signature_verifier import SignatureVerifier, Signer
from localsim.services.storage.signing.upload_policies import parse_policy, policy_claim
from localsim.services.storage.wire.form_data import FormParser

EMAIL = "robot@p.iam.gserviceaccount.com"
KEY = HmacKey("GOOG1E", "p", EMAIL, KeyState.ACTIVE, 1, 0.0, 0.0, "c2VjcmV0")
VERIFIER = SignatureVerifier(SimpleNamespace(find={"GOOG1E": KEY}.get))
PAIR = (KEY.access_id, KEY.secret)
TEXTS = st.text(max_size=30) | st.sampled_from(
    [
        "",
        "/",
        "%",
        "%zz",
        "\udcff",
        "a/b/c/d/e",
        "GOOG1E/20260101/auto/storage/goog4_request",
        "9" * 50,
    ]
)
NAMES = (
    *(
        f"X-{kind}-{part}"
        for kind in ("Goog", "Amz")
        for part in ("Algorithm", "Credential", "Date")
    ),
    *(f"X-Goog-{part}" for part in ("Expires", "SignedHeaders", "Signature")),
    *("GoogleAccessId", "AWSAccessKeyId", "Expires", "Signature", "acl", "uploads", "a"),
)


def sent(method, url, headers):
    host, _, rest = url.removeprefix("http://").partition("/")
    path, _, query = rest.partition("?")
    pairs = [("host", host), *((name.lower(), value) for name, value in headers.items())]
    return SentRequest(method, host, f"/{path}", query, pairs)


SEGMENTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)


def quoted(text):
    from urllib.parse import quote

    return quote(text, safe="~")


@given(
    SEGMENTS,
    st.dictionaries(SEGMENTS, SEGMENTS, max_size=3),
    st.dictionaries(st.sampled_from(["x-goog-meta-a", "content-type", "range"]), VALUES),
    st.sampled_from(["GOOG4", "AWS4"]),
)
def test_what_is_signed_by_the_documentation_verifies(name, query, headers, scheme):
    pairs = sorted(f"{quoted(key)}={quoted(value)}" for key, value in query.items())
    url = f"http://h:1/box/{quoted(name)}" + (f"?{'&'.join(pairs)}" if pairs else "")
    signed = v4_headers(PAIR, "GET", url, headers, scheme=scheme)
    assert VERIFIER.signer_of(sent("GET", url, signed)) == Signer(EMAIL, "p")
    changed = {**signed, "host": "h:2"}
    with pytest.raises(SignatureError):
        VERIFIER.signer_of(sent("PUT", url, {**changed, "x-goog-meta-z": "1"}))


@given(st.data())
def test_no_header_breaks_the_verifier(data):
    url = "http://h:1/box/x?uploads"
    signers = [lambda: v4_headers(PAIR, "GET", url), lambda: v2_headers(PAIR, "GET", "/box/x")]
    headers = data.draw(st.sampled_from(signers))()
    for name in data.draw(
        st.lists(st.sampled_from([*headers, "x-goog-meta-a", "date"]), max_size=3)
    ):
        text = headers.get(name, "")
        at = data.draw(st.integers(0, len(text)))
        headers[name] = text[:at] + data.draw(TEXTS) + text[data.draw(st.integers(at, at + 9)) :]
    with contextlib.suppress(StorageError):
        VERIFIER.signer_of(sent("GET", url, headers))


@given(st.lists(st.tuples(st.sampled_from(NAMES), TEXTS), max_size=9), TEXTS, TEXTS)
def test_no_query_breaks_the_verifier(pairs, path, host):
    query = "&".join(f"{name}={value}" for name, value in pairs)
    request = SentRequest("GET", host, path, query, [("host", host)])
    with contextlib.suppress(StorageError):
        assert VERIFIER.signer_of(request) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
DOCUMENTS = JSON | st.fixed_dictionaries(
    {"expiration": JSON | st.just("2026-01-01T00:00:00Z"), "conditions": JSON}
)


@given(DOCUMENTS, st.dictionaries(st.sampled_from([name.lower() for name in NAMES]), TEXTS))
def test_no_policy_breaks_the_form(document, fields):
    policy = base64.b64encode(json.dumps(document).encode()).decode()
    with contextlib.suppress(StorageError):
        parse_policy(policy).check(fields, "box", 0.0)
    with contextlib.suppress(StorageError):
        claim = policy_claim({**fields, "policy": policy})
        assert claim is not None
        VERIFIER.verify(claim)


def parsed(body, sizes):
    """Fields and file of a form that comes in pieces, or the reason of its refusal."""
    parser, content, start = FormParser(b"B"), b"", 0
    try:
        for size in [*sizes, len(body)]:
            content += parser.feed(body[start : start + size])
            start += size
        parser.check_end()
    except StorageError as error:
        return error.message
    return parser.fields, parser.file_name, content


PIECES = st.sampled_from(
    [
        *(b"--B\r\n", b"--B--\r\n", b"\r\n", b"--B", b"\n", b"x", b"\xff", b"\r\n--Bx\r\n", b"--"),
        *(b'Content-Disposition: form-data; name="key"\r\n\r\nk\r\n',),
        *(b'Content-Disposition: form-data; name="file"; filename="f"\r\n\r\n',),
        b"Content-Disposition: form-data; name*=utf-8''a\r\n\r\n",
    ]
)


@given(st.lists(PIECES, max_size=10).map(b"".join), st.lists(st.integers(1, 40), max_size=20))
def test_a_form_means_the_same_in_whatever_pieces_it_comes(body, sizes):
    assert parsed(body, sizes) == parsed(body, [])
