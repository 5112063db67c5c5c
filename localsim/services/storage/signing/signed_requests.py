"""The signatures of requests on the wire: who has signed one is found out once."""

from aiohttp import web

from localsim.services.storage.signing.sent_requests import EXTENSIONS, SentRequest
from localsim.services.storage.signing.signature_claims import AUTHORIZATIONS
from localsim.services.storage.signing.signature_verifier import SignatureVerifier, Signer
from localsim.services.storage.wire.inner_requests import VIRTUAL_HOST
from localsim.services.storage.wire.json_requests import CONTENT_SHA256

SIGNER = web.RequestKey("SIGNER", Signer)
"""Where a request carries the account that has signed it."""
_SIGNS_IN_QUERY = ("ignature=", "lgorithm=")
"""The ends of the parameters that every signed query has."""
_SHA256_DIGITS = 64


def signer_of(verifier: SignatureVerifier, request: web.Request) -> Signer | None:
    """Who has signed a request of the XML API; None for an unsigned one.

    Raises SignatureError. What is signed of the body is checked when that is received.
    """
    if SIGNER in request:
        return request[SIGNER]
    if not _looks_signed(request):
        return None
    sent = sent_request(request)
    signer = verifier.signer_of(sent)
    if signer is not None:
        request[SIGNER] = signer
        _expect_body(request, sent)
    return signer


def sent_request(request: web.Request) -> SentRequest:
    """The request as its client sent it."""
    path, _, query = request.raw_path.partition("?")
    host, bucket = request.headers["Host"], ""
    if VIRTUAL_HOST in request:
        host, sent_path = request[VIRTUAL_HOST]
        bucket = path.removesuffix(sent_path.partition("?")[0]).removeprefix("/")
        path = sent_path.partition("?")[0]
    headers = [(name.lower(), value) for name, value in request.headers.items()]
    return SentRequest(request.method, host, path, query, headers, bucket)


def _looks_signed(request: web.Request) -> bool:
    authorization = request.headers.get("Authorization")
    if authorization is not None and authorization.partition(" ")[0] in AUTHORIZATIONS:
        return True
    query = request.raw_path.partition("?")[2]
    return bool(query) and any(end in query for end in _SIGNS_IN_QUERY)


def _expect_body(request: web.Request, sent: SentRequest) -> None:
    for prefix in EXTENSIONS:
        digest = sent.header(f"{prefix}content-sha256") or ""
        if len(digest) == _SHA256_DIGITS:
            request[CONTENT_SHA256] = digest.lower()
