"""Buckets, objects, preconditions and errors of Cloud Storage, as plain values."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO

import google_crc32c

Properties = Mapping[str, Any]
MAX_NAME_BYTES = 1024
_READ_BYTES = 1024 * 1024
_SEVEN_BITS = 127


class StorageError(Exception):
    """A refusal of Cloud Storage: HTTP status, reason and message.

    `details` are for the XML API, which shows the message there where it has none. `headers` are
    those of the reply beside the ones that every refusal has.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or message
        self.headers = headers or {}


def invalid(message: str) -> StorageError:
    """A refusal with 400: the request itself is wrong."""
    return StorageError(400, "invalid", message)


def not_implemented(what: str) -> StorageError:
    """A refusal with 501: Cloud Storage has it, this service does not."""
    return StorageError(501, "notImplemented", f"{what} is not implemented by localsim")


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must hold at the moment of the change, or the request has no effect."""

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None
    etag_match: str | None = None
    etag_not_match: str | None = None

    def check(self, current: "Bucket | StoredObject | None", *, reading: bool = False) -> None:
        """Raise 412, or 304 where what must not be there is there.

        By number that holds for any method, cloud.google.com/storage/docs/request-preconditions;
        by If-None-Match for readers, RFC 9110.
        """
        if not self._matches(current):
            raise precondition_failed()
        if self.etag_not_match is not None and _same_etag(self.etag_not_match, current):
            raise precondition_failed(code=304 if reading else 412)
        unwanted = (self.generation_not_match, self.metageneration_not_match)
        if current is None and unwanted != (None, None):
            raise precondition_failed()  # "If no live object exists, the precondition fails."
        if current is not None and (
            unwanted[0] == current.generation or unwanted[1] == current.metageneration
        ):
            raise precondition_failed(code=304)

    def _matches(self, current: "Bucket | StoredObject | None") -> bool:
        return (
            self.generation_match in (None, 0 if current is None else current.generation)
            and self.metageneration_match in (None, current and current.metageneration)
            and (self.etag_match is None or _same_etag(self.etag_match, current))
        )


def _same_etag(header: str, current: "Bucket | StoredObject | None") -> bool:
    wanted = {etag.strip().strip('"') for etag in header.split(",")}
    return current is not None and not wanted.isdisjoint({"*", current.etag})


def precondition_failed(
    message: str = "At least one of the pre-conditions you specified did not hold.",
    *,
    code: int = 412,
) -> StorageError:
    """A refusal with 412, or 304 for a reader."""
    return StorageError(code, "conditionNotMet", message)


NO_PRECONDITIONS = Preconditions()


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Which object is meant; a generation selects that one or nothing."""

    bucket: str
    name: str
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Hashes:
    """Checksums as Cloud Storage spells them: base64 of the big-endian digest."""

    crc32c: str | None = None
    md5: str | None = None
    wants_md5: bool = True
    """Whether the reply will show an MD5, though the client brings none to check."""


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object that is to be written, with its preconditions."""

    bucket: str
    name: str
    properties: Properties
    preconditions: Preconditions = NO_PRECONDITIONS
    expected: Hashes = field(default_factory=Hashes)
    declared_bytes: int | None = None
    """How many bytes the client said that it would send in all."""


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
        """The tag that changes with every change of the bucket, its policy's included."""
        return etag_of(self.metageneration)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A generation of an object; one without `body_files` has its body in the database."""

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
    body_files: tuple[str, ...] = ()
    component_count: int | None = None
    """Of how many uploads it is composed; None for one that was uploaded."""
    deleted_s: float | None = None
    """Since when it is noncurrent; None for the live generation."""

    @property
    def etag(self) -> str:
        """The tag that changes with every change of the content or the metadata."""
        return etag_of(self.generation, self.metageneration)


def etag_of(*numbers: int) -> str:
    """The numbers as the first fields of a protocol buffer, as in the etags of Google."""
    data = bytearray()
    for field_number, number in enumerate(numbers, 1):
        data.append(8 * field_number)
        rest = number
        while rest > _SEVEN_BITS:
            data.append(rest & _SEVEN_BITS | 128)
            rest >>= 7
        data.append(rest)
    return base64.b64encode(data).decode()


def instant(seconds: float) -> str:
    """A moment in seconds of the epoch as RFC 3339 in UTC, with milliseconds and `Z`."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode_crc32c(value: int) -> str:
    """A running CRC32C in the API's spelling."""
    return base64.b64encode(value.to_bytes(4, "big")).decode()


def encode_md5(file: BinaryIO) -> str:
    """The MD5 of the rest of the file in the API's spelling."""
    digest = hashlib.md5(usedforsecurity=False)
    while data := file.read(_READ_BYTES):
        digest.update(data)
    return base64.b64encode(digest.digest()).decode()


def extend_crc32c(value: int, data: bytes) -> int:
    """The running CRC32C extended by the data."""
    return int(google_crc32c.extend(value, data))


def check_object_name(name: str) -> None:
    """Raise 400 for a name that Cloud Storage refuses."""
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise invalid("Object names must be valid UTF-8.") from None
    if not 0 < size_bytes <= MAX_NAME_BYTES:
        raise invalid(f"Object names must be 1 to {MAX_NAME_BYTES} bytes of UTF-8.")
    if name in (".", "..") or name.startswith(".well-known/acme-challenge/"):
        raise invalid(f"Invalid object name: {name!r}")
    if "\r" in name or "\n" in name:
        raise invalid("Disallowed unicode characters present in object name")
