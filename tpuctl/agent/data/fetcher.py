"""Fetches objects of a bucket to this worker's disk, several at once, and says how it goes.

Each object is written under a temporary name beside its own, in ranges; a range that is complete is
noted in a journal next to it, so that the next run goes on where this one ended. The checksums of
the ranges are combined: no byte is read twice. Standard library only, Python 3.8.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from hashlib import sha256
from typing import Any, NamedTuple

from tpuctl.agent.data import crc32c, target_tree
from tpuctl.agent.data import range_reader as cloud
from tpuctl.agent.data.report import ProgressReport

RANGE_BYTES = 16 * 1024 * 1024
OBJECTS_AT_ONCE = 8
RANGES_AT_ONCE = 8
JOURNAL = ".ranges"
DAMAGED_TRIES = 3
"""How often bytes that are not the ones stored are fetched."""


class ManifestObject(NamedTuple):
    """A row of the manifest: an object, and its path below the target."""

    name: str
    generation: int
    size_bytes: int
    crc32c: str
    path: str


class Fetcher:
    """Objects of one bucket into one directory, which is made when it is not there."""

    def __init__(self, bucket: cloud.RangeReader, target: str, report: ProgressReport) -> None:
        self.bucket = bucket
        self.root = target_tree.open_target(target)
        self.report = report
        self.ranges = ThreadPoolExecutor(RANGES_AT_ONCE)
        self.directories: dict[tuple[int, int], tuple[int, set[str]]] = {}
        self.lock = threading.Lock()
        self.is_forbidden = False
        self.is_unreached = False

    def fetch_all(self, objects: Iterator[ManifestObject]) -> None:
        """Fetch every object, OBJECTS_AT_ONCE at a time, without a future for each of them."""
        taking = threading.Lock()

        def work() -> None:
            while True:
                with taking:
                    wanted = next(objects, None)
                if wanted is None or self.is_forbidden:
                    return
                self.fetch(wanted)

        with ThreadPoolExecutor(OBJECTS_AT_ONCE) as pool:
            for each in [pool.submit(work) for _ in range(OBJECTS_AT_ONCE)]:
                each.result()

    def fetch(self, wanted: ManifestObject) -> None:
        """Fetch one object unless it is there; what fails is reported."""
        try:
            with target_tree.open_parent(self.root, wanted.path) as (directory, name):
                is_current = self.is_there(wanted, directory, name)
                if not is_current:
                    self.write(wanted, directory, name)
                    self.remember(directory, name)
                self.report.done(wanted.size_bytes, is_current=is_current)
        except (target_tree.RefusedNameError, cloud.FetchError) as error:
            self.is_forbidden = self.is_forbidden or isinstance(error, cloud.ForbiddenError)
            self.is_unreached = self.is_unreached or isinstance(error, cloud.UnreachedError)
            self.report.refuse(wanted.path, str(error))
        except OSError as error:
            self.report.refuse(wanted.path, f"cannot write: {error.strerror or error}")

    def is_there(self, wanted: ManifestObject, directory: int, name: str) -> bool:
        """Whether the same bytes are on the disk already, by size and CRC-32C."""
        descriptor = target_tree.open_existing(directory, name)
        if descriptor is None:
            return False
        with os.fdopen(descriptor, "rb"):
            if os.fstat(descriptor).st_size != wanted.size_bytes:
                return False
            return crc32c.encode(checksum(descriptor, 0, wanted.size_bytes)) == wanted.crc32c

    def write(self, wanted: ManifestObject, directory: int, name: str) -> None:
        """Fetch it under a temporary name, verify, sync, rename."""
        version = f"{self.bucket.path}{wanted.name}#{wanted.generation}"
        digest = sha256(version.encode()).hexdigest()
        temporary = target_tree.unfinished_name(name, digest[:24])
        with os.fdopen(target_tree.open_locked(directory, temporary), "r+b", buffering=0) as file:
            descriptor = file.fileno()
            os.truncate(descriptor, wanted.size_bytes)
            journal = Journal(directory, temporary, descriptor, wanted.size_bytes)
            try:
                self.fill_verified(wanted, descriptor, journal)
                os.fsync(descriptor)
                os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
                journal.ranges.clear()
            finally:
                journal.close()

    def fill_verified(self, wanted: ManifestObject, descriptor: int, journal: Journal) -> None:
        """Fill it, again when bytes were damaged on the way."""
        for _ in range(DAMAGED_TRIES):
            self.fill(wanted, descriptor, journal)
            if crc32c.encode(journal.whole()) == wanted.crc32c:
                return
            journal.ranges.clear()
            self.report.received(-wanted.size_bytes)
        raise cloud.FetchError("the bytes received are not the bytes stored")

    def fill(self, wanted: ManifestObject, descriptor: int, journal: Journal) -> None:
        """Fetch the ranges that are missing, several at once when there are several."""

        def one(start: int) -> None:
            end = min(start + RANGE_BYTES, wanted.size_bytes)
            journal.note(start, end, self.piece(wanted, descriptor, start, end))

        missing = journal.missing()
        if len(missing) == 1:
            one(missing[0])
            return
        # All of them end before an error leaves: they write to a file that is closed then.
        for each in wait([self.ranges.submit(one, start) for start in missing]).done:
            each.result()

    def piece(self, wanted: ManifestObject, descriptor: int, start: int, end: int) -> int:
        """Fetch and write one range; returns its CRC-32C. Raises FetchError."""
        value = 0

        def take(offset: int, block: bytes) -> None:
            nonlocal value
            try:
                target_tree.write_all(descriptor, block, offset)
            except OSError as error:
                raise cloud.FetchError(f"cannot write: {error.strerror}") from error
            value = crc32c.extend(value, block)
            self.report.received(len(block))

        self.bucket.read(wanted.name, wanted.generation, start, end, take)
        return value

    def remember(self, directory: int, name: str) -> None:
        """Remember a directory with a new name in it, to be synced and swept once at the end."""
        found = os.fstat(directory)
        key = found.st_dev, found.st_ino
        with self.lock:
            if key not in self.directories:
                self.directories[key] = os.dup(directory), set()
            self.directories[key][1].add(target_tree.unfinished_prefix(name))

    def close(self) -> None:
        """Sync the directories with new names, and remove what earlier runs left in them."""
        self.ranges.shutdown()
        self.bucket.close()
        for descriptor, families in self.directories.values():
            os.fsync(descriptor)
            target_tree.sweep(descriptor, families)
            os.close(descriptor)
        os.fsync(self.root)
        os.close(self.root)


class Journal:
    """Which ranges of an unfinished file are complete; one of an earlier run is checked again."""

    def __init__(self, directory: int, temporary: str, descriptor: int, size_bytes: int) -> None:
        self.directory = directory
        self.temporary = temporary
        self.size_bytes = size_bytes
        self.lock = threading.Lock()
        self.ranges: dict[int, int] = {}
        self.file: int | None = None
        if size_bytes <= RANGE_BYTES:
            return  # nothing can be resumed of a single range
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self.file = os.open(temporary + JOURNAL, flags, target_tree.FILE_MODE, dir_fd=directory)
        for line in os.pread(self.file, os.fstat(self.file).st_size, 0).split(b"\n")[:-1]:
            self.recall(line, descriptor)

    def recall(self, line: bytes, descriptor: int) -> None:
        """Believe a line when the bytes are as it says."""
        with contextlib.suppress(ValueError):
            start, end, value = map(int, line.split())
            is_ours = start % RANGE_BYTES == 0 and end == min(start + RANGE_BYTES, self.size_bytes)
            if is_ours and checksum(descriptor, start, end) == value:
                self.ranges[start] = value

    def missing(self) -> list[int]:
        """The starts of the ranges that are not complete."""
        starts = range(0, self.size_bytes, RANGE_BYTES)
        return [start for start in starts if start not in self.ranges]

    def note(self, start: int, end: int, value: int) -> None:
        """Note that a range is complete."""
        with self.lock:
            self.ranges[start] = value
            if self.file is not None:
                os.write(self.file, b"%d %d %d\n" % (start, end, value))

    def whole(self) -> int:
        """The CRC-32C of the file, from those of its ranges."""
        value = 0
        for start in range(0, self.size_bytes, RANGE_BYTES):
            size_bytes = min(RANGE_BYTES, self.size_bytes - start)
            value = crc32c.combine(value, self.ranges[start], size_bytes)
        return value

    def close(self) -> None:
        """Keep it with its file when a later run can go on from it; else remove what is left."""
        if self.file is not None:
            os.close(self.file)
        if self.file is not None and self.ranges:
            return
        for name in (self.temporary, self.temporary + JOURNAL):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.directory)


def checksum(descriptor: int, start: int, end: int) -> int:
    """The CRC-32C of a part of a file; -1 when the file is shorter."""
    value = 0
    while start < end:
        block = os.pread(descriptor, min(cloud.BLOCK_BYTES, end - start), start)
        if not block:
            return -1
        value, start = crc32c.extend(value, block), start + len(block)
    return value


def fetch_objects(
    bucket: cloud.RangeReader, target: str, objects: list[ManifestObject], report: ProgressReport
) -> bool:
    """Fetch objects below a directory; whether the bucket answered. Raises OSError, Refused.

    What cannot be had is reported.
    """
    refused = target_tree.refusals(wanted.path for wanted in objects)
    fetcher = Fetcher(bucket, target, report)
    for path, why in sorted(refused.items()):
        report.refuse(path, why)
    fetcher.fetch_all(wanted for wanted in objects if wanted.path not in refused)
    fetcher.close()
    return not fetcher.is_unreached


def fetch(manifest: Mapping[str, Any]) -> int:
    """Fetch every object of a manifest; 1 when some are not there at the end."""
    objects = [ManifestObject(*row) for row in manifest["objects"]]
    bucket = cloud.RangeReader(manifest["endpoint"], manifest["bucket"])
    report = ProgressReport()
    with report.running():
        fetch_objects(bucket, manifest["target"], objects, report)
    report.end()
    return 1 if report.failed else 0
