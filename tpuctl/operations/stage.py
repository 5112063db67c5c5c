"""Data to and from Cloud Storage: plan, copy in parallel, verify both ends; again sends nothing."""

import base64
import contextlib
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

import google_crc32c

from tpuctl.errors import IntegrityError, LocalIOError, NotFoundError, TpuctlError, UsageError
from tpuctl.models.transfer import Plan, Refusal, Sent, Transfer
from tpuctl.store import Entry, Store

AT_ONCE = 8
UNFINISHED = ".tpuctl-part-"
CHUNK_BYTES = 8 * 1024 * 1024


def split_url(url: str) -> tuple[str, str]:
    """`gs://bucket/key` as (bucket, key); raises UsageError."""
    bucket, _, key = url.removeprefix("gs://").partition("/")
    if not url.startswith("gs://") or not bucket:
        raise UsageError(f"{url!r} is not a gs:// address", hint="write gs://BUCKET/NAME")
    return bucket, key


def plan_push(source: Path, store: Store, prefix: str) -> Plan:
    """Files under `source` against the objects under `prefix`.

    Raises NotFoundError when there is no source, and when there is no bucket.
    """
    there = {entry.key: entry for entry in store.list(_listing_prefix(prefix, source))}
    transfers, refusals = [], []
    for name, path in _files(source):
        key = _key(prefix, name, source)
        try:
            if path.is_symlink() and path != source:
                refusals.append(Refusal(str(path), "a symbolic link"))
            elif not path.is_file():
                refusals.append(Refusal(str(path), "not a regular file"))
            else:
                transfers.append(_upload(key, path, there.get(key)))
        except OSError as error:
            refusals.append(Refusal(str(path), str(error.strerror)))
    return Plan(tuple(transfers), tuple(refusals))


def plan_pull(store: Store, prefix: str, target: Path) -> Plan:
    """Objects under `prefix`, or the one of that name, against the files under `target`."""
    single = store.head(prefix) if prefix and not prefix.endswith("/") else None
    entries = [single] if single else list(store.list(_folder(prefix)))
    if not entries:
        raise NotFoundError(f"nothing is under {store.url}/{prefix}", hint="run: tpuctl data list")
    transfers, refusals = [], []
    for entry in entries:
        name = PurePosixPath(entry.key).name if single else entry.key[len(_folder(prefix)) :]
        is_file = bool(single) and not target.is_dir()
        path = target if is_file else target / name
        why = None if is_file else _unsafe(name, target)
        if why:
            refusals.append(Refusal(entry.key, why))
        else:
            current = _is_current(path, entry)
            transfers.append(Transfer(entry.key, path, entry.size_bytes, entry.generation, current))
    return Plan(tuple(transfers), tuple(refusals))


def push(plan: Plan, store: Store) -> Iterator[Sent]:
    """Send what the plan says; an object that changed since is an error of that transfer."""
    return _each(plan, lambda one: _push_one(one, store))


def pull(plan: Plan, store: Store) -> Iterator[Sent]:
    """Fetch what the plan says, each under a temporary name until it is verified."""
    mode = 0o666 & ~_umask()
    return _each(plan, lambda one: _pull_one(one, store, mode))


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def crc32c(path: Path) -> str:
    """The checksum of a file as Cloud Storage spells it."""
    checksum = google_crc32c.Checksum()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            checksum.update(chunk)
    return base64.b64encode(checksum.digest()).decode("ascii")


def _each(plan: Plan, copy: Callable[[Transfer], None]) -> Iterator[Sent]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(copy, one): one for one in plan.to_send}
        try:
            for future in as_completed(running):
                error = future.exception()
                if error is not None and not isinstance(error, (TpuctlError, OSError)):
                    raise error
                yield Sent(running[future], str(error) if error else None)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _push_one(one: Transfer, store: Store) -> None:
    with Unchanging(one.path) as file:
        store.put_if_generation(one.key, cast("BinaryIO", file), one.generation)


class Unchanging(io.FileIO):
    """A file that refuses to be read on once it has changed: half of each is nobody's file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._began = self._version()

    def read(self, size: int | None = -1, /) -> bytes:
        """Read; raises IntegrityError before anything mixed can be sent."""
        data = super().read(-1 if size is None else size)
        if self._version() != self._began:
            raise IntegrityError(f"{self.name} changed while it was read")
        return data or b""

    def _version(self) -> tuple[int, int]:
        found = os.fstat(self.fileno())
        return found.st_size, found.st_mtime_ns


def _pull_one(one: Transfer, store: Store, mode: int) -> None:
    entry = store.head(one.key)
    if entry is None or entry.generation != one.generation:
        raise IntegrityError(f"{one.key} changed since the plan was made")
    try:
        one.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=one.path.parent, prefix=UNFINISHED)
    except OSError as error:
        raise LocalIOError(f"cannot write {one.path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            _fetch(store, entry, file.write)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(one.path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _fetch(store: Store, entry: Entry, write: Callable[[bytes], object]) -> None:
    checksum = google_crc32c.Checksum()
    for start in range(0, entry.size_bytes, CHUNK_BYTES):
        end = min(start + CHUNK_BYTES, entry.size_bytes)
        chunk = store.get_range(entry.key, start, end, generation=entry.generation)
        checksum.update(chunk)
        write(chunk)
    if base64.b64encode(checksum.digest()).decode("ascii") != entry.crc32c:
        raise IntegrityError(f"{entry.key}: the bytes received are not the bytes stored")


def _files(source: Path) -> Iterator[tuple[str, Path]]:
    if source.is_file():
        yield "", source
        return
    if not source.is_dir():
        raise NotFoundError(f"there is no file or directory {source}", hint="check the path")
    for path in sorted(source.rglob("*")):
        if path.name.startswith(UNFINISHED):
            continue  # what a killed pull left
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(source).as_posix(), path


def _key(prefix: str, name: str, source: Path) -> str:
    if name:
        return _folder(prefix) + name
    return prefix + source.name if not prefix or prefix.endswith("/") else prefix


def _listing_prefix(prefix: str, source: Path) -> str:
    return _key(prefix, "", source) if source.is_file() else _folder(prefix)


def _folder(prefix: str) -> str:
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def _upload(key: str, path: Path, there: Entry | None) -> Transfer:
    size_bytes = path.stat().st_size
    current = there is not None and there.size_bytes == size_bytes and there.crc32c == crc32c(path)
    return Transfer(key, path, size_bytes, there.generation if there else 0, current)


def _is_current(path: Path, entry: Entry) -> bool:
    return (
        path.is_file() and path.stat().st_size == entry.size_bytes and crc32c(path) == entry.crc32c
    )


def _unsafe(name: str, target: Path) -> str | None:
    """Why an object name must not become a path below `target`, or None."""
    parts = name.split("/")
    if name.endswith("/") or not name:
        return "a name that ends with / cannot be a file"
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or "\0" in name:
        return "the name would lead out of the target"
    parents = [target.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
    if any(path.is_symlink() for path in parents):
        return "a symbolic link stands in the way"
    if any(path.exists() and not path.is_dir() for path in parents[:-1]) or parents[-1].is_dir():
        return "a file and a directory of the same name"
    return None
