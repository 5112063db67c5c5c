"""The MD5 of objects that were uploaded without one: calculated when somebody looks at them.

An upload whose reply need not show it (its `fields` leave it out) does not wait for it. A listing
does not show it then, and it is not kept: an ETag may be made of an MD5.
"""

import asyncio
import base64
import dataclasses
import hashlib

from localsim.cloud.objects.open_object import OpenObject
from localsim.cloud.objects.storage_model import StorageError, StoredObject
from localsim.cloud.objects.store import ObjectKey, ObjectStore

MOST_BYTES = 256 * 1024 * 1024
"""Who describes a larger object does not want to wait for half a second and more."""
MOST_KNOWN = 10_000
_READ_BYTES = 1024 * 1024


class Md5Cache:
    """Those that were calculated last, by generation, which no other object ever has."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    async def shown(self, objects: ObjectStore, stored: StoredObject) -> StoredObject:
        """The object with its MD5; a composite or very large one without, as it is."""
        if stored.md5 or stored.component_count or stored.size_bytes > MOST_BYTES:
            return stored
        md5 = self._known.get(stored.generation)
        if md5 is None:
            try:
                md5 = await self._calculate(objects, stored)
            except (StorageError, OSError):  # it has just gone
                return stored
        return dataclasses.replace(stored, md5=md5)

    async def _calculate(self, objects: ObjectStore, stored: StoredObject) -> str:
        key = ObjectKey(stored.bucket, stored.name, stored.generation)
        with objects.open(key) as found:
            md5 = await asyncio.to_thread(_md5, found)
        while len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[stored.generation] = md5
        return md5


def _md5(found: OpenObject) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for piece in found.pieces():
        if piece.file is None:
            digest.update(piece.data)
            continue
        piece.file.seek(piece.start)
        while data := piece.file.read(_READ_BYTES):
            digest.update(data)
    return base64.b64encode(digest.digest()).decode()
