"""The files with the bytes of objects: received in `incoming`, kept in `objects`.

A kept file never changes, so bodies that have bytes in common link the same file under names of
their own. Everything here runs on the thread of the store, except `seal`, which blocks on the disk,
and `remove`, which any thread may call.
"""

import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from localsim.rules.objects.files.body_cipher import apply_cipher, new_data_key
from localsim.rules.objects.files.checksums import combine_crc32c
from localsim.rules.objects.files.durable_files import create_private, disk_errors, write_all
from localsim.rules.objects.files.incoming_body import (
    FLUSHES,
    INLINE_BYTES,
    IncomingBody,
    ObjectBody,
    checked_hashes,
)
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.storage_model import Hashes, StorageError
from localsim.state_directory import synchronize

_KEY_SUFFIX = ".key"

__all__ = ["INLINE_BYTES", "ObjectBody", "BodyDirectory", "IncomingBody", "crc32c_of"]


class BodyDirectory:
    """The files of one store; no name of a file was chosen by a client."""

    def __init__(self, directory: Path, database: ObjectDatabase) -> None:
        self._database = database
        self._incoming = directory / "incoming"
        self._objects = directory / "objects"
        self._flusher = ThreadPoolExecutor(FLUSHES, "storage-flushes")
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._doomed: set[str] = set()
        for folder in (self._incoming, self._objects):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (directory.parent, directory, self._objects):
            synchronize(folder)
        self._folders = {folder.name for folder in self._objects.iterdir()}

    def receive(self, name: str | None = None) -> IncomingBody:
        """Begin to receive a body, under a given or a random name."""
        return IncomingBody(self._incoming, name, self._flusher)

    def create(self, name: str, data_key: bytes | None = None) -> None:
        """Within a change: create an empty incoming body that survives a crash, with its key."""
        body = self.receive(name)
        self._database.on_rollback(body.discard)
        body.create()
        body.close()
        self._database.synchronize_first(self._incoming)
        if data_key is not None:
            self._database.on_rollback(lambda: self.forget_key(name))
            with disk_errors(), create_private(self._key_file(name)) as file:
                write_all(file, data_key)
            self._database.synchronize_first(self._key_file(name))

    def data_key(self, name: str) -> bytes:
        """The key of an incoming body that has one."""
        with disk_errors():
            return self._key_file(name).read_bytes()

    def forget_key(self, name: str) -> None:
        """Remove the key of an incoming body, if there is one."""
        self._key_file(name).unlink(missing_ok=True)

    def forget(self, name: str) -> None:
        """Remove an incoming body of a given name, and its key, if there are any."""
        (self._incoming / name).unlink(missing_ok=True)
        self.forget_key(name)

    def seal(self, incoming: IncomingBody, expected: Hashes) -> ObjectBody:
        """Check the hashes and rename the durable file; blocks when the body is on disk."""
        crc32c, md5 = checked_hashes(incoming, expected)
        sealed = ObjectBody(incoming.size_bytes, crc32c, md5, data_keys=incoming.data_keys)
        if not incoming.is_on_disk:
            return replace(sealed, data=incoming.memory)
        incoming.sync()
        incoming.close()
        name = incoming.path.name
        with disk_errors():
            incoming.path.rename(self._place(name))
        return replace(sealed, files=(name,))

    def keep(self, body: ObjectBody, *, returning: bool = False) -> None:
        """Within a change: the sealed body is durable with it, and gone without it.

        With `returning` it is incoming again without it, to be sealed another time.
        Raises 503 when a reset has swept it away in the meantime.
        """
        undo = self._unseal if returning else self.remove
        self._database.on_rollback(lambda: undo(body.files))
        for file in body.files:
            if not self._path(file).exists():
                raise StorageError(503, "backendError", "localsim was reset during this upload.")
            self._database.synchronize_first(self._path(file).parent)

    def link(self, files: Iterable[str]) -> tuple[str, ...]:
        """Within a change: other names for the bytes of kept files, in their order."""
        with disk_errors():
            folder = self._place(secrets.token_hex(1)).parent
        self._database.synchronize_first(folder)
        return tuple(self._link(file, folder) for file in files)

    def joined(self, bodies: Sequence[ObjectBody]) -> ObjectBody:
        """Within a change: one body of several kept ones, which stay; of one, the same again.

        Files are linked; only small bodies among them are written again. Several have no MD5.
        All of them are encrypted or none is, and so is the result.
        """
        if len(bodies) == 1:
            (body,) = bodies
            return replace(body, files=self.link(body.files)) if body.files else body

        size_bytes = sum(body.size_bytes for body in bodies)
        crc32c = crc32c_of(bodies)
        encrypts = any(body.data_keys for body in bodies)
        if size_bytes <= INLINE_BYTES and not any(body.files for body in bodies):
            data, keys = _sealed(_plain(bodies), encrypts=encrypts)
            return ObjectBody(size_bytes, crc32c, None, data=data, data_keys=keys)
        files: list[str] = []
        data_keys: list[bytes] = []
        for is_in_files, run in groupby(bodies, key=lambda body: bool(body.files)):
            if is_in_files:
                joined = list(run)
                files += self.link(file for body in joined for file in body.files)
                data_keys += (key for body in joined for key in body.data_keys)
            elif plain := _plain(run):
                data, keys = _sealed(plain, encrypts=encrypts)
                files.append(self._write(data))
                data_keys += keys
        return ObjectBody(size_bytes, crc32c, None, files=tuple(files), data_keys=tuple(data_keys))

    def in_files(self, body: ObjectBody) -> tuple[str, ...]:
        """Within a change: the files of a kept body; of a small one, a new file."""
        return body.files or (self._write(body.data or b""),)

    def size_bytes(self, file: str) -> int:
        """How much is in a kept file; raises OSError."""
        return self._path(file).stat().st_size

    def open(self, file: str) -> BinaryIO:
        """Open a kept file; raises OSError."""
        return self._path(file).open("rb")

    def hold(self, files: Sequence[str]) -> ExitStack:
        """Keep files on disk until the context ends, even if they are removed.

        Raises FileNotFoundError when one is gone already.
        """
        with self._lock:
            if not self._doomed.isdisjoint(files):
                raise FileNotFoundError
            self._held.update(files)
        with ExitStack() as stack:
            stack.callback(self._release, files)
            for file in files:
                self._path(file).stat()
            return stack.pop_all()

    def remove(self, files: Sequence[str]) -> None:
        """Remove kept files; those that are held, when nobody holds them any more."""
        with self._lock:
            self._doomed.update(files)
            free = [file for file in files if not self._held[file]]
        self._unlink(free)

    def drop(self, generation: int, files: Sequence[str]) -> None:
        """Within a change: remove the bytes of a generation, which lie in files or in a row."""
        if files:
            self._database.after_commit(lambda: self.remove(files))
        else:
            statement = "DELETE FROM storage_bodies WHERE generation = ?"
            self._database.execute(statement, generation)

    def sweep(self, *, kept: Set[str], unfinished: Set[str]) -> None:
        """Remove what a killed server left; files of `unfinished` uploads are incoming again."""
        for path in self._objects.glob("*/*"):
            if path.name in unfinished:
                path.rename(self._incoming / path.name)
            elif path.name not in kept:
                path.unlink(missing_ok=True)
        for path in self._incoming.iterdir():
            if path.name.removesuffix(_KEY_SUFFIX) not in unfinished:
                path.unlink(missing_ok=True)

    def _key_file(self, name: str) -> Path:
        return self._incoming / f"{name}{_KEY_SUFFIX}"

    def _unseal(self, files: Sequence[str]) -> None:
        for file in files:
            self._path(file).rename(self._incoming / file)

    def _release(self, files: Sequence[str]) -> None:
        with self._lock:
            self._held.subtract(files)
            free = [file for file in files if not self._held[file]]
            for file in free:
                del self._held[file]
            doomed = [file for file in free if file in self._doomed]
        self._unlink(doomed)

    def _unlink(self, files: Sequence[str]) -> None:
        for file in files:
            self._path(file).unlink(missing_ok=True)
        with self._lock:
            self._doomed.difference_update(files)

    def _link(self, file: str, folder: Path) -> str:
        name = folder.name + secrets.token_hex(15)
        place = f"{folder}/{name}"  # an object may have thousands of files: no Path for each
        self._database.on_rollback(partial(os.unlink, place))
        with disk_errors():
            os.link(f"{self._objects}/{file[:2]}/{file}", place)
        return name

    def _write(self, data: bytes) -> str:
        name = secrets.token_hex(16)
        with disk_errors():
            place = self._place(name)
            self._database.on_rollback(lambda: place.unlink(missing_ok=True))
            with create_private(place) as file:
                write_all(file, data)
        self._database.synchronize_first(place)
        self._database.synchronize_first(place.parent)
        return name

    def _place(self, name: str) -> Path:
        """Where a new file belongs, in a folder that is there."""
        path = self._path(name)
        if path.parent.name not in self._folders:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            synchronize(self._objects)
            self._folders.add(path.parent.name)  # no sooner: others may rely on it
        return path

    def _path(self, file: str) -> Path:
        return self._objects / file[:2] / file


def _plain(bodies: Iterable[ObjectBody]) -> bytes:
    """The bytes of bodies without files, one after the other."""
    return b"".join(
        apply_cipher(body.data_keys[0], body.data or b"", 0) if body.data_keys else body.data or b""
        for body in bodies
    )


def _sealed(plain: bytes, *, encrypts: bool) -> tuple[bytes, tuple[bytes, ...]]:
    """The bytes as they are kept, and the key of their own, if any."""
    if not encrypts:
        return plain, ()
    data_key = new_data_key()
    return apply_cipher(data_key, plain, 0), (data_key,)


def crc32c_of(bodies: Sequence[ObjectBody]) -> str:
    """The checksum of one or more bodies, one after the other."""
    crc32c = bodies[0].crc32c
    for body in bodies[1:]:
        crc32c = combine_crc32c(crc32c, body.crc32c, body.size_bytes)
    return crc32c
