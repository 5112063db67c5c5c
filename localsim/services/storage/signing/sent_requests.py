"""What of a request is signed: the canonical forms of versions 4 and 2.

V4: cloud.google.com/storage/docs/authentication/canonical-requests. V2:
cloud.google.com/storage/docs/access-control/signed-urls-v2. Clients do not agree on every letter:
some sign the host without its port, and some escape more of a path than they send. A form that
says the same of the same request is as good as another, so each is tried.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from urllib.parse import parse_qsl, quote, quote_from_bytes, unquote_to_bytes

EXTENSIONS = ("x-goog-", "x-amz-")
_UNSIGNED_IN_V2 = ("x-goog-encryption-key", "x-goog-encryption-key-sha256")
_SUBRESOURCES = frozenset(
    {
        *("acl", "billing", "compose", "cors", "defaultObjectAcl", "delete", "encryption"),
        *("encryptionConfig", "lifecycle", "location", "logging", "partNumber", "policy"),
        *("requestPayment", "restore", "storageClass", "tagging", "torrent", "uploadId", "uploads"),
        *("userProject", "versionId", "versioning", "versions", "website", "websiteConfig"),
    }
)
"""The parameters that say which part of a resource is meant, which V2 signs."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as its client sent it."""

    method: str
    host: str
    raw_path: str
    """Still percent-encoded."""
    query_text: str
    headers: Sequence[tuple[str, str]]
    """Their names are in lower case."""
    host_bucket: str = ""
    """The bucket that the name of the host begins with, and the path therefore lacks."""

    @property
    def query(self) -> list[tuple[str, str]]:
        """The parameters in their order; a character stands for a byte."""
        return parse_qsl(self.query_text, keep_blank_values=True, encoding="latin-1")

    def header(self, name: str) -> str | None:
        """The values of a header, joined and with their spaces collapsed; None for no header."""
        values = [" ".join(value.split()) for given, value in self.headers if given == name]
        return ",".join(values) if values else None


def canonical_requests(
    sent: SentRequest, signed_headers: Sequence[str], payload: str, leaving_out: str = ""
) -> Iterator[str]:
    """The forms of a request that a V4 signature may be of, the usual one first.

    `leaving_out` is the parameter, in lower case, that holds the signature itself.
    """
    query = _canonical_query(pair for pair in sent.query if pair[0].lower() != leaving_out)
    names = ";".join(signed_headers)
    for path, host in product(_paths(sent.raw_path), _hosts(sent.host)):
        lines = [
            f"{name}:{host if name == 'host' else sent.header(name)}" for name in signed_headers
        ]
        yield "\n".join((sent.method, path, query, *lines, "", names, payload))


def string_to_sign(algorithm: str, timestamp: str, scope: str, canonical_request: str) -> str:
    """What a V4 signature is of."""
    data = canonical_request.encode("utf-8", "surrogateescape")
    return "\n".join((algorithm, timestamp, scope, hashlib.sha256(data).hexdigest()))


def strings_of_v2(sent: SentRequest, date_or_expiry: str) -> Iterator[str]:
    """What a V2 signature may be of, the usual form first."""
    extensions = sorted(
        {
            name
            for name, _ in sent.headers
            if name.startswith(EXTENSIONS) and name not in _UNSIGNED_IN_V2
        }
    )
    lines = [
        sent.method,
        sent.header("content-md5") or "",
        sent.header("content-type") or "",
        date_or_expiry,
        *(f"{name}:{sent.header(name)}" for name in extensions),
    ]
    bucket = f"/{sent.host_bucket}" if sent.host_bucket else ""
    paths = _paths(sent.raw_path, raw_first=True)
    if not bucket and "/" not in sent.raw_path.strip("/"):  # botocore signs /BUCKET as /BUCKET/
        paths.append(f"{paths[0].rstrip('/')}/")
    for path, parameters in product(paths, _subresources(sent)):
        yield "\n".join((*lines, f"{bucket}{path}{parameters}"))


def _canonical_query(pairs: Iterable[tuple[str, str]]) -> str:
    return "&".join(
        sorted(
            "=".join(quote(text, safe="~", encoding="latin-1") for text in pair) for pair in pairs
        )
    )


def _paths(raw_path: str, *, raw_first: bool = False) -> list[str]:
    sent = raw_path.encode("utf-8", "surrogateescape")
    forms = [quote_from_bytes(unquote_to_bytes(sent), safe="/~"), raw_path]
    return list(dict.fromkeys(reversed(forms) if raw_first else forms))


def _hosts(host: str) -> list[str]:
    name, colon, port = host.rpartition(":")
    return [host, name] if colon and port.isdecimal() else [host]


def _subresources(sent: SentRequest) -> list[str]:
    """The part of the query that V2 signs, as Google documents it and as Amazon does."""
    known = sorted(pair for pair in sent.query if pair[0] in _SUBRESOURCES)
    wider = sorted(
        pair for pair in sent.query if pair[0] in _SUBRESOURCES or pair[0].startswith("response-")
    )
    forms = [_written(known), _written(wider), _encoded(wider)]
    return list(dict.fromkeys(forms))


def _written(pairs: Iterable[tuple[str, str]]) -> str:
    text = "&".join(f"{name}={_text(value)}" if value else name for name, value in pairs)
    return f"?{text}" if text else ""


def _encoded(pairs: Iterable[tuple[str, str]]) -> str:
    """The form that google-cloud-python signs."""
    text = _canonical_query(pairs).replace("%20", "+")
    return f"?{text}" if text else ""


def _text(value: str) -> str:
    return value.encode("latin-1").decode("utf-8", "surrogateescape")
