"""The signature that a request claims to have: in its query, or in its Authorization header.

Whatever is missing, malformed, too old or too early is refused before any key is looked up.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from localsim.services.storage.signing import signature_errors as errors
from localsim.services.storage.signing.sent_requests import (
    EXTENSIONS,
    SentRequest,
    canonical_requests,
    string_to_sign,
    strings_of_v2,
)

MOST_EXPIRES_S = 7 * 24 * 3600
SKEW_S = 15 * 60
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
_LATEST_S = 253_402_300_799  # the end of the year 9999
_TIMESTAMP = "%Y%m%dT%H%M%SZ"
_V4_HEADER = re.compile(
    r"(\S+)\s+Credential=([^,\s]+),\s*SignedHeaders=([^,\s]+),\s*Signature=(\S+)"
)
_V2_HEADER = re.compile(r"(GOOG1|AWS) ([^:\s]+):(\S+)")
_SERVICES = ("storage", "s3")


@dataclass(frozen=True, slots=True)
class SignatureScheme:
    """An algorithm by its name, and the words that go with it."""

    prefix: str
    """Of its headers and parameters."""
    request_type: str
    """The end of its credentials' scope."""
    secret_prefix: str | None
    """What stands before the secret of an HMAC key; None for the RSA key of an account."""


RSA = "GOOG4-RSA-SHA256"
V4_SCHEMES: Mapping[str, SignatureScheme] = {
    RSA: SignatureScheme("x-goog-", "goog4_request", None),
    "GOOG4-HMAC-SHA256": SignatureScheme("x-goog-", "goog4_request", "GOOG4"),
    "AWS4-HMAC-SHA256": SignatureScheme("x-amz-", "aws4_request", "AWS4"),
}
AUTHORIZATIONS = (*V4_SCHEMES, "GOOG1", "AWS")
"""The kinds of Authorization headers that are signatures."""


@dataclass(frozen=True, slots=True)
class CredentialScope:
    """Where and when a V4 credential is good."""

    date: str
    location: str
    service: str
    request_type: str

    def __str__(self) -> str:
        return f"{self.date}/{self.location}/{self.service}/{self.request_type}"


@dataclass(frozen=True, slots=True)
class SignatureClaim:
    """Who has signed, how, and what."""

    scheme: SignatureScheme | None
    """None for version 2."""
    signer: str
    """The address of a service account, or the ID of an HMAC key."""
    scope: CredentialScope | None
    signature: bytes
    strings: Callable[[], Iterator[tuple[str, str]]]
    """Returns what may be signed, with the canonical request that it is of, if any."""


def claim_of(sent: SentRequest, now_s: float) -> SignatureClaim | None:
    """The signature that a request claims to have; None for an unsigned one.

    Raises SignatureError.
    """
    parameters = dict(sent.query)
    lowered = {name.lower(): value for name, value in sent.query}
    authorization = sent.header("authorization") or ""
    in_query = [prefix for prefix in EXTENSIONS if f"{prefix}signature" in lowered]
    in_query += [prefix for prefix in EXTENSIONS if f"{prefix}algorithm" in lowered]
    if (in_query or "Signature" in parameters) and authorization:
        raise errors.wrong_argument("Only one authentication mechanism is allowed.")
    if in_query:
        return _v4_of_query(sent, in_query[0], lowered, now_s)
    if "Signature" in parameters:
        return _v2_of_query(sent, parameters, now_s)
    kind = authorization.partition(" ")[0]
    if kind in V4_SCHEMES:
        return _v4_of_header(sent, authorization, now_s)
    return _v2_of_header(sent, authorization, now_s) if kind in AUTHORIZATIONS else None


def scope_of(
    scheme: SignatureScheme, credential: str, timestamp: str
) -> tuple[str, CredentialScope]:
    """Who signs, and the scope of it; raises SignatureError for one of another day or service."""
    parts = credential.rsplit("/", 4)
    name = f"{scheme.prefix}credential"
    if len(parts) != 5 or not all(parts):  # noqa: PLR2004
        raise errors.malformed(
            name, "The credential must be ID/DATE/LOCATION/SERVICE/REQUEST_TYPE."
        )
    scope = CredentialScope(*parts[1:])
    if scope.date != timestamp[:8]:
        raise errors.malformed(name, "The date of the credential is not that of the request.")
    if scope.service not in _SERVICES or scope.request_type != scheme.request_type:
        expected = f"{_SERVICES[0]}/{scheme.request_type}"
        raise errors.malformed(name, f"The scope of the credential must end with {expected}.")
    return parts[0], scope


def instant_of(name: str, timestamp: str) -> float:
    """The moment of a V4 timestamp; raises SignatureError."""
    try:
        if not re.fullmatch(r"[0-9]{8}T[0-9]{6}Z", timestamp):
            raise ValueError
        return datetime.strptime(timestamp, _TIMESTAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise errors.malformed(
            name, f"{timestamp!r} is not a time like 20260131T235959Z."
        ) from None


def hexadecimal(name: str, text: str) -> bytes:
    """The bytes of a V4 signature; raises SignatureError."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise errors.malformed(name, "The signature must be hexadecimal.") from None


def scheme_of(name: str, algorithm: str) -> SignatureScheme:
    """The scheme of an algorithm; raises SignatureError."""
    scheme = V4_SCHEMES.get(algorithm)
    if scheme is None:
        known = ", ".join(V4_SCHEMES)
        raise errors.malformed(name, f"The algorithm must be one of {known}.")
    return scheme


def _v4_of_query(
    sent: SentRequest, prefix: str, given: Mapping[str, str], now_s: float
) -> SignatureClaim:
    for part in ("algorithm", "credential", "date", "expires", "signedheaders", "signature"):
        if not given.get(f"{prefix}{part}"):
            raise errors.missing(f"{prefix}{part}")
    algorithm, timestamp = given[f"{prefix}algorithm"], given[f"{prefix}date"]
    scheme = scheme_of(f"{prefix}algorithm", algorithm)
    if scheme.prefix != prefix:
        raise errors.malformed(f"{prefix}algorithm", f"{algorithm} has other parameters.")
    signed_s = instant_of(f"{prefix}date", timestamp)
    _check_life(f"{prefix}expires", given[f"{prefix}expires"], signed_s, now_s)
    signer, scope = scope_of(scheme, given[f"{prefix}credential"], timestamp)
    names = _signed_headers(sent, given[f"{prefix}signedheaders"], f"{prefix}signedheaders")
    payload = sent.header(f"{prefix}content-sha256") or UNSIGNED_PAYLOAD

    def strings() -> Iterator[tuple[str, str]]:
        for form in canonical_requests(sent, names, payload, f"{prefix}signature"):
            yield string_to_sign(algorithm, timestamp, str(scope), form), form

    signature = hexadecimal(f"{prefix}signature", given[f"{prefix}signature"])
    return SignatureClaim(scheme, signer, scope, signature, strings)


def _check_life(name: str, text: str, signed_s: float, now_s: float) -> None:
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= MOST_EXPIRES_S:
        raise errors.malformed(name, f"It must be a number of seconds from 1 to {MOST_EXPIRES_S}.")
    if signed_s > now_s + SKEW_S:
        raise errors.skewed()
    if now_s > signed_s + int(text):
        instant = errors.shown_instant(signed_s + int(text))
        raise errors.expired(f"Request signature expired at: {instant}")


def _v4_of_header(sent: SentRequest, authorization: str, now_s: float) -> SignatureClaim:
    match = _V4_HEADER.fullmatch(authorization)
    if match is None:
        details = "It must be ALGORITHM Credential=C, SignedHeaders=H, Signature=S."
        raise errors.malformed("authorization", details)
    algorithm, credential, headers, signature = match.groups()
    scheme = V4_SCHEMES[algorithm]
    timestamp = sent.header(f"{scheme.prefix}date")
    if timestamp is None:
        raise errors.missing(f"{scheme.prefix}date")
    if abs(instant_of(f"{scheme.prefix}date", timestamp) - now_s) > SKEW_S:
        raise errors.skewed()
    signer, scope = scope_of(scheme, credential, timestamp)
    names = _signed_headers(sent, headers, "authorization")
    payload = sent.header(f"{scheme.prefix}content-sha256") or UNSIGNED_PAYLOAD

    def strings() -> Iterator[tuple[str, str]]:
        for form in canonical_requests(sent, names, payload):
            yield string_to_sign(algorithm, timestamp, str(scope), form), form

    return SignatureClaim(scheme, signer, scope, hexadecimal("authorization", signature), strings)


def _signed_headers(sent: SentRequest, text: str, name: str) -> list[str]:
    """The names of the signed headers, among which all must be that change what is done."""
    names = text.split(";")
    if names != sorted({each.lower() for each in names}):
        raise errors.malformed(name, "The signed headers must be in lower case and in order.")
    if "host" not in names:
        raise errors.malformed("host", "The header must be signed.")
    for each in names:
        if sent.header(each) is None:
            details = "Header was included in signedheaders, but not in the request."
            raise errors.malformed(each, details)
    for each, _ in sent.headers:
        if each.startswith(EXTENSIONS) and each not in names:
            details = "Header was included in the request, but not in signedheaders."
            raise errors.malformed(each, details)
    return names


def _v2_of_query(sent: SentRequest, given: Mapping[str, str], now_s: float) -> SignatureClaim:
    signer = given.get("GoogleAccessId") or given.get("AWSAccessKeyId")
    if not signer:
        raise errors.missing("GoogleAccessId")
    text = given.get("Expires", "")
    if not re.fullmatch("[0-9]{1,19}", text):
        raise errors.wrong_argument(f"Expires parameter is not a valid long value: {text}")
    if now_s > min(int(text), _LATEST_S):
        raise errors.expired(f"Request has expired: {text}")
    return _v2_claim(sent, signer, text, given["Signature"])


def _v2_of_header(sent: SentRequest, authorization: str, now_s: float) -> SignatureClaim:
    match = _V2_HEADER.fullmatch(authorization)
    if match is None:
        raise errors.malformed("authorization", "It must be GOOG1 ID:SIGNATURE.")
    extension = next((date for each in EXTENSIONS if (date := sent.header(f"{each}date"))), None)
    date = extension or sent.header("date")
    if not date:
        raise errors.missing("date")
    if abs(_instant_of_date(date) - now_s) > SKEW_S:
        raise errors.skewed()
    return _v2_claim(sent, match[2], "" if extension else date, match[3])


def _instant_of_date(date: str) -> float:
    try:
        found = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return instant_of("date", date)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _v2_claim(sent: SentRequest, signer: str, date: str, signature: str) -> SignatureClaim:
    try:
        data = base64.b64decode(signature.replace(" ", "+"), validate=True)
    except ValueError:
        raise errors.malformed("Signature", "The signature must be base64.") from None
    return SignatureClaim(
        None, signer, None, data, lambda: ((text, "") for text in strings_of_v2(sent, date))
    )
