"""Google's own worked examples of V4 signed URLs: each verifies, and no changed one does."""

import calendar
import dataclasses
import json
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization

from localsim.services.storage.signing.sent_requests import SentRequest, canonical_requests
from localsim.services.storage.signing.signature_errors import SignatureError
from localsim.services.storage.signing.signature_verifier import SignatureVerifier, Signer

DATA = Path(__file__).parent / "data"
KEY = serialization.load_pem_public_key((DATA / "test_account.pub.pem").read_bytes())
EMAIL = "test-iam-credentials@dummy-project-id.iam.gserviceaccount.com"
EXAMPLES = json.loads((DATA / "v4_signatures.json").read_text("utf-8"))["signingV4Tests"]


def verified(example):
    """What verifies an example at the moment at which it was signed."""
    timestamp = example.get("timestamp", "2019-02-01T09:00:00Z")
    now_s = calendar.timegm(time.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ"))
    return SignatureVerifier(None, {EMAIL: [KEY]}.get, lambda: now_s)


def sent_by(example):
    """The request of the example's URL, as a client of HTTP sends it."""
    url = urlsplit(example["expectedUrl"])
    headers = {name.lower(): value for name, value in example.get("headers", {}).items()}
    host = url.netloc.removesuffix(":443" if url.scheme == "https" else ":80")
    headers["host"] = host
    return SentRequest(example["method"], host, url.path, url.query, list(headers.items()))


def test_every_signed_url_verifies():
    refused = {}
    for example in EXAMPLES:
        try:
            assert verified(example).signer_of(sent_by(example)) == Signer(EMAIL)
        except SignatureError as error:
            refused[example["description"]] = error.elements
    assert (len(EXAMPLES), refused) == (29, {})


MISPRINTED = "Universe domain with virtual hosted style"
"""Its canonical request names the bucket in the path too; its signature is of one that does not."""


def test_canonical_requests_are_googles():
    others = [
        example["description"]
        for example in EXAMPLES
        if example["expectedCanonicalRequest"] not in list(forms_of(example))
    ]
    assert others == [MISPRINTED]


def forms_of(example):
    sent = sent_by(example)
    parameters = dict(sent.query)
    payload = sent.header("x-goog-content-sha256") or "UNSIGNED-PAYLOAD"
    names = parameters["X-Goog-SignedHeaders"].split(";")
    return canonical_requests(sent, names, payload, "x-goog-signature")


CHANGES = {
    "method": lambda sent: {"method": "PUT" if sent.method == "GET" else "GET"},
    "path": lambda sent: {"raw_path": f"{sent.raw_path}x"},
    "host": lambda sent: {"host": f"x{sent.host}"},
    "query": lambda sent: {"query_text": f"{sent.query_text}&generation=1"},
    "expiry": lambda sent: {"query_text": sent.query_text.replace("Expires=10", "Expires=11")},
    "signature": lambda sent: {"query_text": f"{sent.query_text[:-2]}00"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_request_is_refused(change):
    for example in EXAMPLES:
        sent = sent_by(example)
        changed = dataclasses.replace(sent, **CHANGES[change](sent))
        if changed == sent:
            continue
        with pytest.raises(SignatureError) as refused:
            verified(example).signer_of(changed)
        assert refused.value.reason == "SignatureDoesNotMatch"
