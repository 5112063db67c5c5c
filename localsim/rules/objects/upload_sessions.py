"""The sessions of resumable uploads, which survive their requests and the server."""

import dataclasses
import secrets
from functools import partial
from typing import Any

from localsim.clock import Clock
from localsim.rules.model.records import decode, encode
from localsim.rules.objects.files.body_directory import BodyDirectory, IncomingBody
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.storage_model import (
    NewObject,
    ObjectKey,
    StorageError,
    StoredObject,
    check_object_name,
)

SESSION_LIFE_S = 7 * 24 * 3600
_CREATED_S = 4  # column of a row
_REFUSED = "refused:"
"""What a session has for a result that a chunk has ended, before the message."""


class ChunkError(StorageError):
    """A refusal of a chunk with 400; on the wire it is the message alone."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "invalid", message)


class SmallChunkError(ChunkError):
    """The refusal of a chunk that is too small, which ends its session."""


@dataclasses.dataclass(frozen=True, slots=True)
class UploadSession:
    """An open session: the object to be written, and the bytes received so far."""

    id: str
    new: NewObject
    body: IncomingBody


class UploadSessions:
    """The sessions of a store: a row and a file each, until the object is published."""

    def __init__(self, database: ObjectDatabase, bodies: BodyDirectory, clock: Clock) -> None:
        self._database = database
        self._bodies = bodies
        self._clock = clock

    def start(self, new: NewObject) -> str:
        """Begin a session and return its id."""
        check_object_name(new.name)
        upload_id = secrets.token_hex(16)
        with self._database.change():
            self.drop_expired()
            self._bodies.create(upload_id)
            row = upload_id, encode(new), self._clock.now()
            statement = "INSERT INTO storage_uploads VALUES (?, ?, 0, 0, ?, NULL)"
            self._database.execute(statement, *row)
        return upload_id

    def require(self, key: ObjectKey, upload_id: str) -> None:
        """Raise 404 unless the session is one of the object, live generation or not."""
        new = decode(NewObject, self._row(upload_id)[1])
        if (new.bucket, new.name) != (key.bucket, key.name):
            raise StorageError(404, "notFound", f"No such upload session: {upload_id}")

    def result(self, upload_id: str) -> StoredObject | None:
        """What the session has published, None while it is unfinished.

        Raises StorageError 404 when there is none, 410 for a week after its end, and ChunkError
        when a chunk has ended it.
        """
        result = self._row(upload_id)[-1]
        if result is not None and result.startswith(_REFUSED):
            raise ChunkError(result.removeprefix(_REFUSED))
        return None if result is None else decode(StoredObject, result)

    def open(self, upload_id: str) -> UploadSession:
        """Continue an unfinished session after the last byte on record."""
        _, new, received_bytes, crc32c, *_ = self._row(upload_id)
        body = self._bodies.receive(upload_id)
        if not body.path.exists():  # it went with an object that the disk did not take
            raise StorageError(404, "notFound", f"No such upload session: {upload_id}")
        body.resume(received_bytes, crc32c)
        return UploadSession(upload_id, decode(NewObject, new), body)

    def checkpoint(self, upload: UploadSession) -> None:
        """Record how many bytes are on disk."""
        with self._database.change():
            statement = "UPDATE storage_uploads SET received_bytes = ?, crc32c = ? WHERE id = ?"
            body = upload.body
            self._database.execute(statement, body.size_bytes, body.crc32c, upload.id)

    def finish(self, upload_id: str, stored: StoredObject) -> None:
        """Within a change: keep the published object for a client that loses the reply."""
        statement = "UPDATE storage_uploads SET result = ? WHERE id = ?"
        self._database.execute(statement, encode(stored), upload_id)

    def refuse(self, upload_id: str, message: str) -> None:
        """End an unfinished session without an object: whoever continues it gets the message."""
        with self._database.change():
            if self.result(upload_id) is not None:
                return
            statement = "UPDATE storage_uploads SET result = ? WHERE id = ?"
            self._database.execute(statement, f"{_REFUSED}{message}", upload_id)
            self._database.after_commit(partial(self._bodies.forget, upload_id))

    def cancel(self, upload_id: str) -> None:
        """Delete a session and its bytes; raises 404 when there is none."""
        with self._database.change():
            self._row(upload_id)
            self._database.execute("DELETE FROM storage_uploads WHERE id = ?", upload_id)
            self._database.after_commit(partial(self._bodies.forget, upload_id))

    def drop_expired(self) -> None:
        """Drop the bytes of the sessions older than a week; after two weeks nothing is left."""
        with self._database.change():
            query = "SELECT id FROM storage_uploads WHERE created_s < ?"
            for (upload_id,) in self._database.execute(query, self._oldest_s()).fetchall():
                self._database.after_commit(partial(self._bodies.forget, upload_id))
            statement = "DELETE FROM storage_uploads WHERE created_s < ?"
            self._database.execute(statement, self._oldest_s(lives=2))

    def unfinished(self) -> set[str]:
        """The ids of the sessions that may still publish something."""
        query = "SELECT id FROM storage_uploads WHERE result IS NULL AND created_s >= ?"
        return {upload_id for (upload_id,) in self._database.execute(query, self._oldest_s())}

    def _oldest_s(self, lives: int = 1) -> float:
        return self._clock.now() - lives * SESSION_LIFE_S

    def _row(self, upload_id: str) -> tuple[Any, ...]:
        query = "SELECT * FROM storage_uploads WHERE id = ?"
        row: tuple[Any, ...] | None = self._database.execute(query, upload_id).fetchone()
        if row is None:
            raise StorageError(404, "notFound", f"No such upload session: {upload_id}")
        if row[_CREATED_S] < self._oldest_s():
            raise StorageError(410, "gone", "The upload session has expired.")
        return row
