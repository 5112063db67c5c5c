"""Copies that encrypt or decrypt: the bytes are written again before the change that needs them.

Any other copy links files, also where it takes another key: then only the keys of the files are
encrypted again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from localsim.rules.objects.files.body_cipher import new_data_key
from localsim.rules.objects.files.incoming_body import ObjectBody
from localsim.rules.objects.object_copies import Converted, UnconvertedError, UnconvertedSource
from localsim.rules.objects.storage_model import Hashes, ObjectKey
from localsim.rules.objects.store import ObjectStore, OpenObject
from localsim.services.storage.service import StorageService

Copied = TypeVar("Copied")
_READ_BYTES = 1024 * 1024


async def commit_copy(service: StorageService, change: Callable[[Converted], Copied]) -> Copied:
    """Commit a change that copies, as often as it asks for sources in another form."""
    converted: dict[ObjectKey, ObjectBody] = {}
    try:
        while True:
            try:
                return await service.commit(change, converted)
            except UnconvertedError as error:
                for source in error.sources:
                    converted[source.key] = await _convert(service.objects, source)
    except BaseException:
        for body in converted.values():
            service.objects.bodies.remove(body.files)
        raise


async def _convert(objects: ObjectStore, source: UnconvertedSource) -> ObjectBody:
    with objects.open(source.key, customer=source.customer) as found:
        return await asyncio.to_thread(_write_again, objects, found, encrypts=source.encrypts)


def _write_again(objects: ObjectStore, found: OpenObject, *, encrypts: bool) -> ObjectBody:
    """The same bytes, sealed, with a key of their own or without one; blocks on the disk."""
    incoming = objects.bodies.receive()
    incoming.encrypt(new_data_key() if encrypts else None)
    try:
        for piece in found.pieces():
            if piece.file is None:
                incoming.write(piece.data)
                continue
            piece.file.seek(piece.start)
            while data := piece.file.read(_READ_BYTES):
                flush = incoming.write(data)
                if flush is not None:
                    flush.result()
        body = objects.bodies.seal(incoming, Hashes(found.stored.crc32c, wants_md5=False))
    finally:
        incoming.discard()
    return replace(body, md5=found.stored.md5)
