"""Staging to a slice: the bytes go to a bucket once, and every worker fetches them from there."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tpuctl.agent import ship
from tpuctl.errors import NotFoundError, UsageError
from tpuctl.models.delivery import Delivery, DeliveryFailure, DeliveryState, Meter
from tpuctl.operations.remote.fanout import WorkerReach, deliver_on_reach
from tpuctl.operations.remote.shipping import JsonLineReader, ship_archive
from tpuctl.operations.stage.plan.names import OWN_PREFIX, folder_prefix, is_data
from tpuctl.store.crc32c_base64 import encode_crc32c

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell
    from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
    from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo

_ENDED = {143: "the fetcher was ended by SIGTERM, as when a slice is about to be preempted"}
STAGING_PREFIX = f"{OWN_PREFIX}staging/"
"""Where a bucket keeps what was pushed to a slice, for the next run and the next slice."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets that a copy can use, and what is known of files that were read before."""

    open_bucket: Callable[[str], BulkBucket]
    own: str
    """The name of the context's bucket."""
    endpoint: str
    """Where the workers reach Cloud Storage."""
    checksums: ChecksumCache


def staging_prefix(source: Path) -> str:
    """The prefix below which a bucket keeps the files of a source; the same for every node."""
    text = f"{platform.node()}:{source.resolve()}"
    return f"{STAGING_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:32]}/"


def place_objects(bulk: BulkBucket, name: str, target: str) -> tuple[str, dict[str, ObjectInfo]]:
    """The directory of the target, and by their paths below it the objects that go there.

    They are the object of that name, or all below it.

    As with a local target, a single object becomes the target itself, or a file in it when it
    ends with /. Raises NotFoundError.
    """
    entries = objects_by_path(bulk, name)
    if [*entries] == [""]:
        root, path = single_target(target, PurePosixPath(name).name)
        return root, {path: entries[""]}
    return target, entries


def objects_by_path(bulk: BulkBucket, name: str) -> dict[str, ObjectInfo]:
    """The object of that name, by "", or all below it by their paths. Raises NotFoundError."""
    single = bulk.head(name) if name and not name.endswith("/") else None
    if single is not None:
        return {"": single}
    prefix = folder_prefix(name)
    entries = {
        entry.key[len(prefix) :]: entry
        for entry in bulk.list(prefix)
        if is_data(entry.key, entry.size_bytes, prefix)
    }
    if not entries:
        raise NotFoundError(f"nothing is under {bulk.url}/{name}", hint="run: tpuctl data list")
    return entries


def single_target(target: str, name: str) -> tuple[str, str]:
    """The directory and the name that a single file gets."""
    if target.endswith("/"):
        return target, name
    path = PurePosixPath(target)
    if not path.name:
        raise UsageError(f"{target!r} is not a file", hint=f"write {target}/ for a directory")
    return str(path.parent), path.name


def shard(names: Iterable[str], index: int, count: int) -> list[str]:
    """Part `index` of `count`: every count-th name in their order, from the index-th on.

    The parts are disjoint, together they are everything, and they depend on the names alone; the
    sizes of two differ by at most one name. `Dataset.shard` of tf.data divides in the same way.
    """
    return sorted(names)[index::count]


def fetch_archive(
    endpoint: str, bucket: str, root: str, objects: Mapping[str, ObjectInfo]
) -> bytes:
    """The archive of a worker's fetcher and its manifest, which holds no secret."""
    rows = [
        (entry.key, entry.generation, entry.size_bytes, _crc32c(entry), path)
        for path, entry in objects.items()
    ]
    manifest = {"verb": "fetch", "endpoint": endpoint, "bucket": bucket, "target": root}
    return ship.archive({**manifest, "objects": rows})


def deliver(reach: WorkerReach, orders: Callable[[int], bytes], meter: Meter) -> list[Delivery]:
    """Run on every worker the archive for its ID, and meter what it fetches.

    A worker that fails stops no other.
    """

    async def fetch(shell: Shell) -> Delivery:
        events = FetcherEvents(meter)
        lines = JsonLineReader(events.take)
        argv = await ship_archive(shell, orders(shell.worker_id))
        status = await shell.execute(argv, out=lines.out, err=lines.err)
        return events.delivery(shell.worker_id, status, lines.complaint)

    return deliver_on_reach(reach, fetch)


class FetcherEvents:
    """Collects the events of a worker's fetcher."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._received_bytes = self._objects = 0
        self._failures: list[DeliveryFailure] = []
        self._end: Mapping[str, Any] | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        """Take an event, which is one line of the fetcher."""
        if "failed" in event:
            self._failures.append(DeliveryFailure(str(event["failed"]), str(event["why"])))
        if "received_bytes" in event:
            received, objects = int(event["received_bytes"]), int(event["objects"])
            self._meter.advance(received - self._received_bytes)
            for _ in range(objects - self._objects):
                self._meter.finished()
            self._received_bytes, self._objects = received, objects
        if "fetched" in event:
            self._end = event

    def delivery(self, worker_id: int, status: int, complaint: str) -> Delivery:
        """The result of a fetcher that ended with a status and a last line on standard error."""
        end = self._end or {}
        error = None
        if self._failures:
            error = f"{self._failures[0].path}: {self._failures[0].why}"
        elif status != 0 or self._end is None:
            error = _ENDED.get(status, f"the fetcher ended with exit status {status}: {complaint}")
        return Delivery(
            worker_id,
            state=DeliveryState.FAILED if error else DeliveryState.DONE,
            objects_copied=int(end.get("fetched", 0)),
            bytes_copied=int(end.get("fetched_bytes", 0)),
            objects_skipped=int(end.get("skipped", 0)),
            failures=tuple(self._failures),
            error=error,
        )


def _crc32c(entry: ObjectInfo) -> str:
    # Every object has one, unless the customer's own key hides it: then nothing equals it.
    return "" if entry.crc32c is None else encode_crc32c(entry.crc32c)
