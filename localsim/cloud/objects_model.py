"""Buckets, objects, preconditions and errors of Cloud Storage, as plain values."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

import google_crc32c

Properties = Mapping[str, Any]
MAX_NAME_BYTES = 1024
_READ_BYTES = 1024 * 1024
TEXT_FIELDS = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "customTime",
    "storageClass",
)
UNSUPPORTED_FIELDS = (
    "acl",
    "contexts",
    "customerEncryption",
    "eventBasedHold",
    "kmsKeyName",
    "retention",
    "temporaryHold",
)


class StorageError(Exception):
    """A refusal in Cloud Storage's own terms: HTTP status, reason and message."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


def invalid(message: str) -> StorageError:
    """The request itself is wrong (400)."""
    return StorageError(400, "invalid", message)


def not_implemented(what: str) -> StorageError:
    """Cloud Storage has it, this service does not (501)."""
    return StorageError(501, "notImplemented", f"{what} is not implemented by localsim")


class Versioned(Protocol):
    """What a precondition looks at."""

    @property
    def generation(self) -> int:
        """Changes with the content."""
        ...

    @property
    def metageneration(self) -> int:
        """Changes with the metadata."""
        ...

    @property
    def etag(self) -> str:
        """Changes with either."""
        ...


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must hold at the moment of the change, or the request has no effect."""

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None
    etag_match: str | None = None
    etag_not_match: str | None = None

    def check(self, current: Versioned | None, *, reading: bool = False) -> None:
        """Raise 412, or 304 for a reader who already has what is there."""
        if not self._matches(current):
            raise _precondition_failed(412)
        if not self._differs(current):
            raise _precondition_failed(304 if reading else 412)

    def _matches(self, current: Versioned | None) -> bool:
        return (
            self.generation_match in (None, 0 if current is None else current.generation)
            and self.metageneration_match in (None, current and current.metageneration)
            and (self.etag_match is None or _same_etag(self.etag_match, current))
        )

    def _differs(self, current: Versioned | None) -> bool:
        if self.etag_not_match is not None and _same_etag(self.etag_not_match, current):
            return False
        unwanted = (self.generation_not_match, self.metageneration_not_match)
        if current is None:
            return unwanted == (None, None)
        return unwanted[0] != current.generation and unwanted[1] != current.metageneration


def _same_etag(header: str, current: Versioned | None) -> bool:
    wanted = {etag.strip().strip('"') for etag in header.split(",")}
    return current is not None and not wanted.isdisjoint({"*", current.etag})


def _precondition_failed(code: int) -> StorageError:
    message = "At least one of the pre-conditions you specified did not hold."
    return StorageError(code, "conditionNotMet", message)


NO_PRECONDITIONS = Preconditions()


@dataclass(frozen=True, slots=True)
class Hashes:
    """Checksums as Cloud Storage spells them: base64 of the big-endian digest."""

    crc32c: str | None = None
    md5: str | None = None


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object that is being written, and on what terms."""

    bucket: str
    name: str
    properties: Properties
    preconditions: Preconditions = NO_PRECONDITIONS
    expected: Hashes = field(default_factory=Hashes)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket as stored."""

    name: str
    project: str
    generation: int
    metageneration: int
    properties: Properties
    created_s: float
    updated_s: float

    @property
    def etag(self) -> str:
        """Changes with every change of the bucket."""
        return _etag(self)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The live generation of an object; `body_file` is None for a body kept in the database."""

    bucket: str
    name: str
    generation: int
    metageneration: int
    size_bytes: int
    crc32c: str
    md5: str | None
    properties: Properties
    created_s: float
    updated_s: float
    body_file: str | None

    @property
    def etag(self) -> str:
        """Changes with every change of the content or the metadata."""
        return _etag(self)


def _etag(version: Versioned) -> str:
    return base64.b64encode(f"{version.generation}/{version.metageneration}".encode()).decode()


def encode_crc32c(value: int) -> str:
    """Spell a running crc32c the way the API does."""
    return base64.b64encode(value.to_bytes(4, "big")).decode()


def encode_md5(file: BinaryIO) -> str:
    """Spell the MD5 of the rest of the file the way the API does."""
    digest = hashlib.md5(usedforsecurity=False)
    while data := file.read(_READ_BYTES):
        digest.update(data)
    return base64.b64encode(digest.digest()).decode()


def extend_crc32c(value: int, data: bytes) -> int:
    """Add the data to a running crc32c."""
    return int(google_crc32c.extend(value, data))


def check_object_name(name: str) -> None:
    """Refuse the names that Cloud Storage refuses."""
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise invalid("Object names must be valid UTF-8.") from None
    if not 0 < size_bytes <= MAX_NAME_BYTES:
        raise invalid(f"Object names must be 1 to {MAX_NAME_BYTES} bytes of UTF-8.")
    if name in (".", "..") or name.startswith(".well-known/acme-challenge/"):
        raise invalid(f"Invalid object name: {name!r}")
    if "\r" in name or "\n" in name:
        raise invalid("Object names must not contain a carriage return or line feed.")


def writable_properties(resource: Properties) -> dict[str, Any]:
    """Keep the fields a client may set, checked; None stands for one to clear."""
    for name in UNSUPPORTED_FIELDS:
        if resource.get(name):
            raise not_implemented(f"The object field {name!r}")
    properties: dict[str, Any] = {}
    for name in TEXT_FIELDS:
        if name in resource:
            properties[name] = _checked_text(name, resource[name])
    if "metadata" in resource:
        properties["metadata"] = _checked_metadata(resource["metadata"])
    return properties


def _checked_text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(f"{name} must be a string.")
    if not value.isprintable():  # it comes back as a response header
        raise invalid(f"{name} must not contain unprintable characters.")
    return value


def _checked_metadata(value: Any) -> dict[str, str | None] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise invalid("metadata must be a map of strings.")
    if not all(isinstance(item, str | None) for item in value.values()):
        raise invalid("metadata values must be strings.")
    return dict(value)


def merged(properties: Properties, change: Properties) -> dict[str, Any]:
    """Apply a patch: a None clears its field, `metadata` is merged key by key."""
    result = {**properties, **change}
    if change.get("metadata") is not None:
        result["metadata"] = {**(properties.get("metadata") or {}), **change["metadata"]}
    return without_cleared(result)


def without_cleared(properties: Properties) -> dict[str, Any]:
    """Drop what is None, in `metadata` too."""
    kept = {name: value for name, value in properties.items() if value is not None}
    if "metadata" in kept:
        metadata = {key: value for key, value in kept["metadata"].items() if value is not None}
        kept.pop("metadata")
        return {**kept, "metadata": metadata} if metadata else kept
    return kept
