"""Resumable uploads: sessions that outlive their requests and the server."""

import dataclasses
import json
import secrets
import sqlite3
from typing import Any

from localsim.clock import Clock
from localsim.cloud.database import transaction
from localsim.cloud.objects_bodies import BodyDirectory, IncomingBody
from localsim.cloud.objects_model import (
    Hashes,
    NewObject,
    Preconditions,
    StorageError,
    StoredObject,
    check_object_name,
)

SESSION_LIFE_S = 7 * 24 * 3600


@dataclasses.dataclass(frozen=True, slots=True)
class Upload:
    """An open session: what is to be written, and the bytes received so far."""

    id: str
    new: NewObject
    body: IncomingBody


class UploadSessions:
    """The sessions of a store: a row and a file each, until the object is published."""

    def __init__(self, connection: sqlite3.Connection, bodies: BodyDirectory, clock: Clock) -> None:
        self._connection = connection
        self._bodies = bodies
        self._clock = clock

    def start(self, new: NewObject) -> str:
        """Begin a session and return its id."""
        check_object_name(new.name)
        upload_id = secrets.token_hex(16)
        self._bodies.create(upload_id)
        with transaction(self._connection):
            self._connection.execute(
                "INSERT INTO storage_uploads VALUES (?, ?, 0, 0, ?, NULL)",
                (upload_id, json.dumps(dataclasses.asdict(new)), self._clock.now()),
            )
        return upload_id

    def result(self, upload_id: str) -> StoredObject | None:
        """What the session has published, None while it is unfinished; 404 when there is none."""
        result = self._row(upload_id)[-1]
        return None if result is None else StoredObject(**json.loads(result))

    def open(self, upload_id: str) -> Upload:
        """Continue an unfinished session after the last byte on record."""
        _, new, received_bytes, crc32c, *_ = self._row(upload_id)
        body = self._bodies.receive(upload_id)
        body.resume(received_bytes, crc32c)
        return Upload(upload_id, _new_object(json.loads(new)), body)

    def checkpoint(self, upload: Upload) -> None:
        """Record how far the synchronized bytes go."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE storage_uploads SET received_bytes = ?, crc32c = ? WHERE id = ?",
                (upload.body.size_bytes, upload.body.crc32c, upload.id),
            )

    def finish(self, upload_id: str, stored: StoredObject) -> None:
        """Remember the published object for a client that lost the reply; inside a transaction."""
        self._connection.execute(
            "UPDATE storage_uploads SET result = ? WHERE id = ?",
            (json.dumps(dataclasses.asdict(stored)), upload_id),
        )

    def cancel(self, upload_id: str) -> None:
        """Forget a session and its bytes; 404 when there is none."""
        self._row(upload_id)
        with transaction(self._connection):
            self._connection.execute("DELETE FROM storage_uploads WHERE id = ?", (upload_id,))
        self._bodies.receive(upload_id).discard()

    def drop_expired(self) -> set[str]:
        """Forget sessions older than a week and return the ids of the unfinished others."""
        oldest_s = self._clock.now() - SESSION_LIFE_S
        with transaction(self._connection):
            self._connection.execute("DELETE FROM storage_uploads WHERE created_s < ?", (oldest_s,))
        rows = self._connection.execute("SELECT id FROM storage_uploads WHERE result IS NULL")
        return {upload_id for (upload_id,) in rows}

    def _row(self, upload_id: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._connection.execute(
            "SELECT * FROM storage_uploads WHERE id = ?", (upload_id,)
        ).fetchone()
        if row is None:
            raise StorageError(404, "notFound", f"No such upload session: {upload_id}")
        return row


def _new_object(fields: dict[str, Any]) -> NewObject:
    preconditions = Preconditions(**fields.pop("preconditions"))
    expected = Hashes(**fields.pop("expected"))
    return NewObject(**fields, preconditions=preconditions, expected=expected)
