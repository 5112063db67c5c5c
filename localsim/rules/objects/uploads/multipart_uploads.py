"""Multipart uploads of the XML API: parts that come in any order, and become one object.

A part is a row and a kept file. Completion hands the files over to the object: no byte is copied,
and the object appears in the same transaction in which the parts go.
Limits: cloud.google.com/storage/quotas#requests.
"""

import base64
import dataclasses
import json
import secrets
from collections.abc import Callable, Sequence

from localsim.clock import Clock
from localsim.rules.objects.files.body_directory import BodyDirectory, crc32c_of
from localsim.rules.objects.files.incoming_body import ObjectBody
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.properties import WRAPPED_KEYS
from localsim.rules.objects.storage_model import (
    NewObject,
    ObjectKey,
    Properties,
    StorageError,
    StoredObject,
    check_object_name,
)

MAX_PARTS = 10_000
MIN_PART_BYTES = 5 * 1024 * 1024
"""The smallest part of an upload; the last part may be smaller."""
MAX_PAGE = 1000

_UPLOADS = "SELECT id, bucket, name, created_s, new_object FROM storage_multiparts"
_PARTS = "number, size_bytes, crc32c, md5"

PlaceObject = Callable[[NewObject, ObjectBody], StoredObject]


@dataclasses.dataclass(frozen=True, slots=True)
class UploadPart:
    """A received part; `md5` is in base64."""

    number: int
    size_bytes: int
    crc32c: str
    md5: str
    updated_s: float

    @property
    def etag(self) -> str:
        """The MD5 in hexadecimal, by which a client names the part."""
        return md5_hex(self.md5)


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimedPart:
    """A part that a client lists when it completes the upload."""

    number: int
    etag: str


@dataclasses.dataclass(frozen=True, slots=True)
class MultipartUpload:
    """An upload that is neither completed nor aborted."""

    id: str
    bucket: str
    name: str
    created_s: float
    new_object: str
    """The metadata of the object that it will be, as JSON."""

    @property
    def properties(self) -> Properties:
        """The same, read."""
        properties: Properties = json.loads(self.new_object)
        return properties


@dataclasses.dataclass(frozen=True, slots=True)
class UploadsQuery:
    """Which uploads to list: names with the prefix, behind the marked upload, at most `limit`."""

    prefix: str = ""
    name_marker: str = ""
    id_marker: str = ""
    limit: int = MAX_PAGE


class MultipartUploads:
    """The multipart uploads of a store; changes belong within a group commit."""

    def __init__(
        self, database: ObjectDatabase, bodies: BodyDirectory, clock: Clock, place: PlaceObject
    ) -> None:
        """`place` makes a kept body the live object, within a change."""
        self._database = database
        self._bodies = bodies
        self._clock = clock
        self._place = place

    def start(self, new: NewObject) -> str:
        """Begin an upload and return its id."""
        check_object_name(new.name)
        upload_id = secrets.token_hex(32)
        with self._database.change():
            properties = json.dumps(dict(new.properties))
            row = upload_id, new.bucket, new.name, properties, self._clock.now()
            self._database.execute("INSERT INTO storage_multiparts VALUES (?, ?, ?, ?, ?)", *row)
        return upload_id

    def require(self, key: ObjectKey, upload_id: str) -> MultipartUpload:
        """The upload of that id and object; raises 404."""
        query = f"{_UPLOADS} WHERE id = ? AND bucket = ? AND name = ?"
        row = self._database.execute(query, upload_id, key.bucket, key.name).fetchone()
        if row is None:
            raise StorageError(
                404,
                "NoSuchUpload",
                "The specified upload does not exist. The upload ID may be invalid, or the upload"
                " may have been aborted or completed.",
            )
        return MultipartUpload(*row)

    def put(
        self,
        key: ObjectKey,
        upload_id: str,
        number: int,
        body: ObjectBody,
        wrapped_key: str | None = None,
    ) -> UploadPart:
        """Add a sealed body as a part, in place of one of the same number.

        It must have an MD5 and be in files, as small as it may be. The key of an encrypted one
        comes as the object will have it.
        """
        with self._database.change():
            self._bodies.keep(body)
            self.require(key, upload_id)
            part = UploadPart(
                number, body.size_bytes, body.crc32c, str(body.md5), updated_s=self._clock.now()
            )
            self._forget(upload_id, number, number)
            checked = part.size_bytes, part.crc32c, part.md5
            row = upload_id, number, *checked, wrapped_key, json.dumps(body.files), part.updated_s
            statement = "INSERT INTO storage_parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            self._database.execute(statement, *row)
        return part

    def list_uploads(self, bucket: str, query: UploadsQuery) -> list[MultipartUpload]:
        """The first uploads behind the markers, by name and then by id."""
        markers = query.name_marker, query.name_marker, query.id_marker, query.id_marker
        rows = self._database.execute(
            f"{_UPLOADS} WHERE bucket = ? AND substr(name, 1, ?) = ?"
            " AND (name > ? OR (name = ? AND id > ? AND ? != '')) ORDER BY name, id LIMIT ?",
            *(bucket, len(query.prefix), query.prefix, *markers, query.limit),
        )
        return [MultipartUpload(*row) for row in rows]

    def list(
        self, key: ObjectKey, upload_id: str, *, after: int = 0, limit: int = MAX_PAGE
    ) -> list[UploadPart]:
        """The first parts whose numbers are greater than `after`, in order."""
        self.require(key, upload_id)
        query = (
            f"SELECT {_PARTS}, updated_s FROM storage_parts"
            " WHERE upload_id = ? AND number > ? ORDER BY number LIMIT ?"
        )
        rows = self._database.execute(query, upload_id, after, limit)
        return [UploadPart(*row) for row in rows]

    def complete(
        self, key: ObjectKey, upload_id: str, claims: Sequence[ClaimedPart]
    ) -> StoredObject:
        """Publish the claimed parts as one object, and delete all parts.

        Raises StorageError: InvalidPartOrder, InvalidPart, EntityTooSmall, NoSuchUpload.
        """
        with self._database.change():
            self.require(key, upload_id)
            _check_order(claims)
            claimed = self._claimed(upload_id, claims)
            new = self._new_object(key, upload_id, [wrapped_key for _, wrapped_key in claimed])
            stored = self._place(new, _joined([body for body, _ in claimed]))
            # Their files are the object's now; those of the other parts go with the upload.
            numbers = json.dumps([claim.number for claim in claims])
            chosen = "upload_id = ? AND number IN (SELECT value FROM json_each(?))"
            self._database.execute(f"DELETE FROM storage_parts WHERE {chosen}", upload_id, numbers)
            self._drop(upload_id)
        return stored

    def abort(self, key: ObjectKey, upload_id: str) -> None:
        """Delete an upload and its parts."""
        with self._database.change():
            self.require(key, upload_id)
            self._drop(upload_id)

    def drop_all(self, bucket: str) -> None:
        """Within a change: delete the uploads of a bucket that is deleted."""
        rows = self._database.execute("SELECT id FROM storage_multiparts WHERE bucket = ?", bucket)
        for (upload_id,) in rows.fetchall():
            self._drop(upload_id)

    def _claimed(
        self, upload_id: str, claims: Sequence[ClaimedPart]
    ) -> Sequence[tuple[ObjectBody, str | None]]:
        """The body of each claimed part, and its wrapped key."""
        query = f"SELECT {_PARTS}, body_files, data FROM storage_parts WHERE upload_id = ?"
        received: dict[int, ObjectBody] = {}
        wrapped_keys: dict[int, str | None] = {}
        rows = self._database.execute(query, upload_id)
        for number, size_bytes, crc32c, md5, files, wrapped_key in rows:
            received[number] = ObjectBody(size_bytes, crc32c, md5, files=tuple(json.loads(files)))
            wrapped_keys[number] = wrapped_key
        bodies = [_checked(received.get(claim.number), claim) for claim in claims]
        if any(body.size_bytes < MIN_PART_BYTES for body in bodies[:-1]):
            message = "Your proposed upload is smaller than the minimum allowed object size."
            raise StorageError(400, "EntityTooSmall", message)
        numbers = [claim.number for claim in claims]
        return [(body, wrapped_keys[each]) for body, each in zip(bodies, numbers, strict=True)]

    def _new_object(
        self, key: ObjectKey, upload_id: str, wrapped_keys: Sequence[str | None]
    ) -> NewObject:
        query = "SELECT new_object FROM storage_multiparts WHERE id = ?"
        ((text,),) = self._database.execute(query, upload_id).fetchall()
        properties = json.loads(text)
        if any(wrapped_keys):
            properties[WRAPPED_KEYS] = list(wrapped_keys)
        return NewObject(key.bucket, key.name, properties)

    def _drop(self, upload_id: str) -> None:
        self._forget(upload_id, 1, MAX_PARTS)
        self._database.execute("DELETE FROM storage_multiparts WHERE id = ?", upload_id)

    def _forget(self, upload_id: str, first: int, last: int) -> None:
        """Within a change: drop parts by number, their files when that is durable."""
        chosen = "upload_id = ? AND number BETWEEN ? AND ?"
        statement = f"DELETE FROM storage_parts WHERE {chosen} RETURNING body_files"
        rows = self._database.execute(statement, upload_id, first, last)
        files = [file for (names,) in rows.fetchall() for file in json.loads(names)]
        if files:
            self._database.after_commit(lambda: self._bodies.remove(files))


def md5_hex(md5: str) -> str:
    """A base64 MD5 in hexadecimal."""
    return base64.b64decode(md5).hex()


def _joined(bodies: Sequence[ObjectBody]) -> ObjectBody:
    """The same files as one body, which has no MD5."""
    files = tuple(file for body in bodies for file in body.files)
    return ObjectBody(sum(body.size_bytes for body in bodies), crc32c_of(bodies), None, files=files)


def _check_order(claims: Sequence[ClaimedPart]) -> None:
    numbers = [claim.number for claim in claims]
    if not claims:
        raise StorageError(400, "InvalidArgument", "You must specify at least one part.")
    if numbers != sorted(set(numbers)):
        message = (
            "The list of parts was not in ascending order. Parts must be ordered by part number."
        )
        raise StorageError(400, "InvalidPartOrder", message)


def _checked(found: ObjectBody | None, claim: ClaimedPart) -> ObjectBody:
    if found is None or found.md5 is None or md5_hex(found.md5) != claim.etag.lower():
        raise StorageError(
            400,
            "InvalidPart",
            "One or more of the specified parts could not be found. The part may not have been"
            " uploaded, or the specified entity tag may not match the part's entity tag.",
        )
    return found
