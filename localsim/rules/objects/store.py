"""The objects of Cloud Storage and the rules of their changes.

A body is durable before the transaction that checks the preconditions and publishes it, so a reader
sees the old object or the new one, and a killed server forgets nothing that it acknowledged.
Everything here runs on one thread, except `bodies.seal` and `IncomingBody.sync`, which block on the
disk. A change made alone blocks as well; several share a transaction by `database.batch`.
"""

import dataclasses
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from localsim.clock import Clock
from localsim.rules.objects.access.hmac_keys import HmacKeys
from localsim.rules.objects.buckets.bucket_store import Buckets
from localsim.rules.objects.buckets.notification_configs import NotificationConfigs
from localsim.rules.objects.buckets.object_access import changed_access
from localsim.rules.objects.files.body_directory import BodyDirectory
from localsim.rules.objects.files.incoming_body import ObjectBody
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.listing import Listing, ListQuery, list_page
from localsim.rules.objects.multipart_uploads import MultipartUploads
from localsim.rules.objects.object_copies import ObjectChanges
from localsim.rules.objects.object_lists import ObjectLists
from localsim.rules.objects.object_rows import ObjectRows
from localsim.rules.objects.properties import ACCESS_FIELDS, changed_properties
from localsim.rules.objects.retention import with_expiration
from localsim.rules.objects.rewrites import ObjectRewrites
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    NewObject,
    ObjectKey,
    Preconditions,
    Properties,
    StorageError,
    StoredObject,
)
from localsim.rules.objects.tables import TABLES
from localsim.rules.objects.upload_sessions import UploadSessions

__all__ = ["ObjectKey", "ObjectStore", "has_no_objects"]

_OPENING_TRIES = 5
"""An object can be replaced between the look at its row and the opening of its file."""


_DATABASE = "objects.sqlite"


def has_no_objects(directory: Path) -> bool:
    """Whether the directory holds no store."""
    path = directory / _DATABASE
    return not (path.exists() and path.stat().st_size)


@dataclasses.dataclass(frozen=True, slots=True)
class BodyPiece:
    """`size_bytes` from `start` of a file, or of `data` where there is no file."""

    file: BinaryIO | None
    data: bytes
    start: int
    size_bytes: int


class OpenObject:
    """A generation whose files are held until it is closed."""

    def __init__(self, stored: StoredObject, data: bytes, bodies: BodyDirectory) -> None:
        """`data` is the body of an object without files."""
        self.stored = stored
        self._data = data
        self._bodies = bodies

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[BodyPiece]:
        """The bytes from `start` up to, not including, `end`; a file is open for its turn only."""
        end = self.stored.size_bytes if end is None else end
        if not self.stored.body_files:
            yield BodyPiece(None, self._data, start, end - start)
            return
        offset = 0
        for name in self.stored.body_files:
            if offset >= end:
                return
            size_bytes = self._bodies.size_bytes(name)
            first, last = max(start - offset, 0), min(end - offset, size_bytes)
            if first < last:
                with self._bodies.open(name) as file:
                    yield BodyPiece(file, b"", first, last - first)
            offset += size_bytes

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """The same bytes at once: only for small objects."""
        return b"".join(_bytes_of(piece) for piece in self.pieces(start, end))


def _bytes_of(piece: BodyPiece) -> bytes:
    if piece.file is None:
        return piece.data[piece.start : piece.start + piece.size_bytes]
    piece.file.seek(piece.start)
    return piece.file.read(piece.size_bytes)


class ObjectStore(ObjectChanges):
    """The objects of a simulated cloud, kept in a directory."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        """Open the store and sweep what a killed predecessor had not acknowledged.

        Raises NewerSchemaError, sqlite3.Error or OSError.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        database = ObjectDatabase(directory / _DATABASE)
        bodies = BodyDirectory(directory, database)
        self.parts = MultipartUploads(database, bodies, clock, self.place)
        self.uploads = UploadSessions(database, bodies, clock)
        self.hmac_keys = HmacKeys(database, clock)
        buckets = Buckets(database, clock, also_delete=self.parts.drop_all)
        super().__init__(database, bodies, ObjectRows(database, bodies, clock), buckets, clock)
        self.rewrites = ObjectRewrites(self, clock)
        self.lists = ObjectLists(self, clock)
        self.notifications = NotificationConfigs(database, buckets)
        self.uploads.drop_expired()
        self.bodies.sweep(kept=self.rows.files(), unfinished=self.uploads.unfinished())

    def begin_again(self, project: str, bucket: str, properties: Properties) -> None:
        """Delete everything and create one bucket, in one change."""
        with self.database.change():
            self._delete_rows()
            self.ensure_bucket(project, bucket, properties)
        self.bodies.sweep(kept=frozenset(), unfinished=frozenset())

    def ensure_bucket(self, project: str, name: str, properties: Properties) -> None:
        """Create a bucket unless it exists."""
        with self.database.change():
            try:
                self.buckets.get(name)
            except StorageError:
                self.buckets.create(project, name, properties)

    def get(
        self,
        key: ObjectKey,
        preconditions: Preconditions = NO_PRECONDITIONS,
        *,
        reading: bool = False,
    ) -> StoredObject:
        """The object, or the noncurrent generation that the key names; raises 404."""
        with self.database.snapshot():
            stored = self.find(key, preconditions, reading=reading)
            return with_expiration(self.buckets.get(key.bucket), stored)

    @contextmanager
    def open(
        self, key: ObjectKey, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> Iterator[OpenObject]:
        """Open the object for the block; its bytes stay even if it is replaced or deleted."""
        for _ in range(_OPENING_TRIES):
            with self.database.snapshot():
                stored = self.get(key, preconditions, reading=True)
                data = b"" if stored.body_files else self.rows.data(stored)
            try:
                held = self.bodies.hold(stored.body_files)
            except FileNotFoundError:
                continue
            with held:
                yield OpenObject(stored, data, self.bodies)
            return
        raise StorageError(503, "backendError", f"The bytes of {key.name!r} are gone.")

    def list(self, bucket: str, query: ListQuery) -> Listing:
        """A page of the bucket's objects in name order."""
        with self.database.snapshot():
            found = self.buckets.get(bucket)
            page = list_page(self.database.connection, bucket, query)
        if "retentionPolicy" in found.properties:
            page.items = [with_expiration(found, stored) for stored in page.items]
        return page

    def roles_of(self, key: ObjectKey, members: Collection[str]) -> frozenset[str]:
        """The roles that the policy of a bucket, and the list of an object, give the members.

        A key without a name is about the bucket alone.
        """
        with self.database.snapshot():
            roles = self.buckets.roles_of(key.bucket, members)
            return roles | self.lists.roles_of(key, members) if key.name else roles

    def publish(
        self, new: NewObject, body: ObjectBody, *, upload_id: str | None = None
    ) -> StoredObject:
        """Make the sealed body the live object, if the preconditions hold at this moment.

        That of an upload session is incoming again if they do not, or the disk does not take it.
        """
        with self.database.change():
            self.bodies.keep(body, returning=upload_id is not None)
            stored = self.place(new, body)
            if upload_id is not None:
                self.uploads.finish(upload_id, stored)
        return stored

    def patch(
        self, key: ObjectKey, change: Properties, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> StoredObject:
        """Change the given fields of the metadata."""
        return self._rewrite(key, change, preconditions, keep=True)

    def update(
        self, key: ObjectKey, properties: Properties, preconditions: Preconditions
    ) -> StoredObject:
        """Replace the metadata as a whole."""
        return self._rewrite(key, properties, preconditions, keep=False)

    def count(self) -> int:
        """The number of live objects in all buckets."""
        return self.rows.count()

    def clear(self) -> None:
        """Delete every object, upload and bucket."""
        with self.database.change():
            self._delete_rows()
        self.bodies.sweep(kept=frozenset(), unfinished=frozenset())

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def _delete_rows(self) -> None:
        for table in TABLES:
            self.database.connection.execute(f"DELETE FROM {table}")

    def _rewrite(
        self, key: ObjectKey, change: Properties, preconditions: Preconditions, *, keep: bool
    ) -> StoredObject:
        with self.database.change():
            stored = self.find(key, preconditions)
            bucket = self.buckets.get(key.bucket)
            now_s = self._clock.now()
            access = changed_access(bucket, stored, change)
            before, after = (
                {name: value for name, value in fields.items() if name not in ACCESS_FIELDS}
                for fields in (stored.properties, change)
            )
            changed = changed_properties(before, after, keeping=keep, now_s=now_s)
            result = dataclasses.replace(
                stored,
                properties={**changed, **access},
                metageneration=stored.metageneration + 1,
                updated_s=now_s,
            )
            self.rows.write(result)
            return with_expiration(bucket, result)
