"""The parts of an XML API request: target in the path, nearly all else in headers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from localsim.rules.objects.properties import (
    CUSTOMER_ENCRYPTION,
    PREDEFINED_ACL,
    writable_properties,
)
from localsim.rules.objects.storage_model import (
    ObjectKey,
    Preconditions,
    StoredObject,
    invalid,
    not_implemented,
)
from localsim.rules.objects.uploads.multipart_uploads import md5_hex
from localsim.services.storage.resources.access_resources import writer_of
from localsim.services.storage.resources.object_resources import HEADER_FIELDS
from localsim.services.storage.signing.signed_requests import SIGNER
from localsim.services.storage.wire.encryption_headers import KMS_HEADER
from localsim.services.storage.wire.json_requests import (
    DEFAULT_TYPE,
    Query,
    StorageCall,
    decode_query,
    decode_segment,
    parse_int64,
)

PREFIXES = ("x-goog-", "x-amz-")
"""Clients of S3 spell Google's own headers in the second way, and are understood."""
_FIELDS = {
    **{header.lower(): field for header, field in HEADER_FIELDS.items()},
    "content-type": "contentType",
    **{f"{prefix}storage-class": "storageClass" for prefix in PREFIXES},
    "x-goog-custom-time": "customTime",
}
_REFUSED_HEADERS = (
    "content-range",
    "x-amz-copy-source-range",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-tagging",
    "x-amz-website-redirect-location",
    "x-goog-interop-list-objects-format",
    "x-goog-object-lock-mode",
)
"""They ask for what this service does not do, or for another request than they came with."""
_REFUSED_PARAMETERS = frozenset(
    {
        *("billing", "compose", "cors", "delete", "encryption"),
        *("encryptionConfig", "legal-hold", "lifecycle", "location", "logging", "object-lock"),
        *("policy", "publicAccessBlock", "requestPayment", "restore", "retention"),
        *("storageClass", "tagging", "torrent", "website"),
        *("response-cache-control", "response-content-encoding"),
        *("response-content-language", "response-expires"),
    }
)
"""Changes of the reply, and subresources: something else than the object or bucket of the path."""
_STREAMED = "STREAMING-"


@dataclasses.dataclass(frozen=True, slots=True)
class XmlCall(StorageCall):
    """One request of the XML API."""

    @property
    def preconditions(self) -> Preconditions:
        """The conditions of the x-goog-if- headers; the others are about ETags of this API."""
        return self._header_conditions("x-goog-if-")

    @property
    def kms_key_name(self) -> str:
        """The key of Cloud KMS that a header names for the object that is made, or nothing."""
        return self.request.headers.get(KMS_HEADER, "")

    @property
    def source_preconditions(self) -> Preconditions:
        """The preconditions on the source of a copy."""
        return self._header_conditions("x-goog-copy-source-if-")

    def _header_conditions(self, prefix: str) -> Preconditions:
        headers = self.request.headers
        return Preconditions(
            generation_match=parse_number(headers, f"{prefix}generation-match"),
            metageneration_match=parse_number(headers, f"{prefix}metageneration-match"),
        )


def parse_xml_query(text: str) -> Query:
    """Decode a query string, refusing what would turn the request into another one."""
    query = decode_query(text)
    for name in query:
        if name in _REFUSED_PARAMETERS:
            raise not_implemented(f"The parameter {name!r}")
    return query


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise 501 for headers that would change the result, were they honoured."""
    for name in _REFUSED_HEADERS:
        if name in headers:
            raise not_implemented(f"The header {name!r}")
    if headers.get("x-amz-content-sha256", "").startswith(_STREAMED):
        raise not_implemented("A body in signed chunks")


def predefined_name(headers: Mapping[str, str]) -> str | None:
    """The predefined list that a header asks for, by its name in the JSON API: `publicRead`."""
    name = extension_header(headers, "acl")
    first, *others = (name or "").split("-")
    return first + "".join(word.capitalize() for word in others) or None


def described_properties(call: StorageCall, headers: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a new object, the access to it and who writes it, as the headers say."""
    name = predefined_name(headers)
    access = writer_of(call) | ({PREDEFINED_ACL: name} if name else {})
    return _metadata_of(headers) | access


def extension_header(headers: Mapping[str, str], name: str) -> str | None:
    """A header of Google's own, under its x-goog- or x-amz- name."""
    return next((headers[prefix + name] for prefix in PREFIXES if prefix + name in headers), None)


def project_of(request: web.Request) -> str:
    """The project that a header names, or that of whoever signs with HMAC; empty for neither."""
    signer = request.get(SIGNER)
    named = extension_header(request.headers, "project-id")
    return named or (signer.project if signer is not None else "")


def parse_number(values: Mapping[str, str], name: str) -> int | None:
    """A number that is not negative, of the query or a header; None where it is not given."""
    text = values.get(name)
    if not text:
        return None
    value = parse_int64(text)
    if value is None or value < 0:
        raise invalid(f"Invalid value for {name}: {text!r}")
    return value


def _metadata_of(headers: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of the object that is to be written."""
    given: dict[str, Any] = {"contentType": DEFAULT_TYPE}
    metadata: dict[str, str] = {}
    for header, value in headers.items():
        name = header.lower()
        if name in _FIELDS:
            given[_FIELDS[name]] = text_of(value)
        for prefix in PREFIXES:
            if name.startswith(f"{prefix}meta-"):
                metadata[name.removeprefix(f"{prefix}meta-")] = text_of(value)
    return writable_properties({**given, **({"metadata": metadata} if metadata else {})})


def text_of(header: str) -> str:
    """A header's value; what was not UTF-8 is refused."""
    try:
        header.encode()
    except UnicodeEncodeError:
        raise invalid("Headers must be valid UTF-8.") from None
    return header


def copy_source(headers: Mapping[str, str]) -> ObjectKey | None:
    """The object to copy, where the request asks for that."""
    text = extension_header(headers, "copy-source")
    if text is None:
        return None
    bucket, _, name = text.removeprefix("/").partition("?")[0].partition("/")
    if not bucket or not name:
        raise invalid(f"Invalid copy source: {text!r}")
    generation = parse_number(headers, "x-goog-copy-source-generation")
    return ObjectKey(decode_segment(bucket), decode_segment(name), generation)


def etag_of(stored: StoredObject) -> str:
    """The quoted MD5; an opaque tag for an object without one, or encrypted by a customer's key."""
    is_opaque = stored.md5 is None or CUSTOMER_ENCRYPTION in stored.properties
    return f'"{stored.etag if is_opaque else md5_hex(str(stored.md5))}"'
