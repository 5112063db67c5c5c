"""Two places compared by size and checksum, or one bucket with itself. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import google_crc32c

from tpuctl.errors import LocalIOError, NotFoundError, TpuctlError
from tpuctl.models.transfer import Identity, Refusal
from tpuctl.operations.stage.plan.checksums import Checksums
from tpuctl.operations.stage.plan.filters import Selection, selection
from tpuctl.operations.stage.plan.names import OWN, folder, is_data
from tpuctl.operations.stage.plan.walk import files
from tpuctl.operations.stage.transfer.pool import Report, Unit, carry_out
from tpuctl.operations.stage.workers.ssh import Remote
from tpuctl.store.checksums import decoded
from tpuctl.store.gcs.bulk import Bulk, Listed

DIFFERS = "differs"
MISSING = "missing"
EXTRA = "extra"
DAMAGED = "damaged"
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Held:
    """What one side has under a name; no checksum where it could not be read."""

    size_bytes: int
    crc32c: int | None
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A name that is not the same at both ends: differs, missing (there), extra (there)."""

    name: str
    verdict: str
    source_bytes: int | None
    target_bytes: int | None
    worker_id: int | None = None
    why: str | None = None


Side = Mapping[str, Held]
"""What one side has, by its path below what was named ('' for that itself)."""


def compared(source: Side, target: Side, *, worker_id: int | None = None) -> Iterator[Finding]:
    """What is not the same, in the order of names."""
    for name in sorted({*source, *target}):
        here, there = source.get(name), target.get(name)
        verdict, why = _verdict(here, there)
        if verdict:
            yield Finding(
                name,
                verdict,
                here.size_bytes if here else None,
                there.size_bytes if there else None,
                worker_id,
                why,
            )


def _verdict(here: Held | None, there: Held | None) -> tuple[str | None, str | None]:
    if here is None or there is None:
        return (MISSING if there is None else EXTRA), None
    unreadable = here.unreadable or there.unreadable
    if unreadable:
        return UNREADABLE, unreadable
    if here.size_bytes != there.size_bytes:
        return DIFFERS, "size"
    if here.crc32c is None or here.crc32c != there.crc32c:
        return DIFFERS, "crc32c"
    return None, None


def on_disk(path: Path, checksums: Checksums) -> Side:
    """The files below a directory that push would take, or the one file.

    Raises NotFoundError, LocalIOError.
    """
    try:
        if path.is_file():
            return {"": _held(str(path), Identity.of(path.stat()), checksums)}
        is_directory = path.is_dir()
    except OSError as error:
        raise LocalIOError(f"cannot read {path}: {error.strerror}") from error
    if not is_directory:
        raise NotFoundError(f"there is no file or directory {path}", hint="check the path")
    return dict(_walked(str(path), selection(str(path), (), ()), checksums))


def in_bucket(bulk: Bulk, name: str) -> Side:
    """The objects below a prefix, or the one object. NotFoundError."""
    return {path: Held(one.size_bytes, one.crc32c) for path, one in objects(bulk, name).items()}


def without_own(side: Side) -> Side:
    """What a whole bucket is compared with: as there, nothing of tpuctl's own."""
    return {name: held for name, held in side.items() if not name.startswith(OWN)}


def on_worker(remote: list[Remote]) -> Side:
    """What a worker said it has, with CRC-32C."""
    return {one.path: Held(one.size_bytes, decoded(one.checksum)) for one in remote}


def objects(bulk: Bulk, name: str) -> dict[str, Listed]:
    """The objects below a prefix, or the one object, by path. NotFoundError."""
    single = bulk.head(name) if name and not name.endswith("/") else None
    if single is not None:
        return {"": single}
    prefix = folder(name)
    data = (one for one in bulk.list(prefix) if is_data(one.key, one.size_bytes, prefix))
    found = {one.key[len(prefix) :]: one for one in data}
    if not found:
        raise NotFoundError(f"nothing is under {bulk.url}/{name}", hint="run: tpuctl data list")
    return found


def read_again(
    bulk: Bulk, found: Mapping[str, Listed], advance: Callable[[int], None]
) -> Iterator[Finding]:
    """Fetch every object, and name those whose bytes have not the checksum they are stored with."""
    damaged: list[Finding] = []
    units: Iterator[Unit] = (
        partial(_read_one, bulk, name, one, damaged) for name, one in found.items()
    )
    for event in carry_out(units):
        advance(getattr(event, "size_bytes", 0))
    yield from sorted(damaged, key=lambda one: one.name)


def _read_one(bulk: Bulk, name: str, one: Listed, damaged: list[Finding], report: Report) -> None:
    checksum = 0

    def take(block: bytes) -> None:
        nonlocal checksum
        checksum = google_crc32c.extend(checksum, block)
        report.progress(len(block))

    try:
        bulk.download(one.key, one.generation, 0, one.size_bytes, take)
    except TpuctlError as error:
        damaged.append(Finding(name, UNREADABLE, one.size_bytes, None, why=str(error)))
        return
    if checksum != one.crc32c:
        why = "the bytes received are not the bytes stored"
        damaged.append(Finding(name, DAMAGED, one.size_bytes, one.size_bytes, why=why))


def _walked(root: str, chosen: Selection, checksums: Checksums) -> Iterator[tuple[str, Held]]:
    for found in files(root, chosen):
        if isinstance(found, Refusal):
            yield found.name, Held(0, None, found.why)
        else:
            name, leads_to, identity = found
            yield name, _held(os.path.join(root, leads_to), identity, checksums)  # noqa: PTH118


def _held(path: str, identity: Identity, checksums: Checksums) -> Held:
    try:
        return Held(identity.size_bytes, checksums.of(path, identity))
    except OSError as error:
        return Held(identity.size_bytes, None, str(error.strerror or error))
    except TpuctlError as error:
        return Held(identity.size_bytes, None, str(error))
