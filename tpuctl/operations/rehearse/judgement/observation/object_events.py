"""What the requests of a run did to objects: writes, reads and deletions, one value each."""

from collections.abc import Iterable
from dataclasses import dataclass

from tpuctl.models.rehearsal.request_log import StorageRequest

OWN_PREFIX = "tpuctl/"
"""Below this a bucket has the records and logs of tpuctl, which no program writes."""
WRITING_METHODS = frozenset(
    f"storage.{name}"
    for name in (
        "objects.insert",
        "objects.compose",
        "objects.copy",
        "objects.rewrite",
        "objects.move",
        "multipartUploads.create",
        "multipartUploads.put",
        "multipartUploads.complete",
    )
)
COPYING_METHODS = frozenset(
    f"storage.objects.{name}" for name in ("compose", "copy", "rewrite", "move")
)
"""They make an object of others that are in the bucket."""
READING_METHODS = frozenset({"storage.objects.get"})
DELETING_METHODS = frozenset({"storage.objects.delete"})


@dataclass(frozen=True, slots=True)
class ObjectWrite:
    """One version of an object that a worker wrote, or began to write."""

    name: str
    """`bucket/object`."""
    caller: str
    """`NODE/WORKER`."""
    number: int
    """The number of the request with which it began."""
    began_s: float
    complete_s: float | None
    """When the object was there; None: it never was, by this write."""
    size_bytes: int
    is_copy: bool = False
    """It was made of other objects, without a body."""


@dataclass(frozen=True, slots=True)
class ObjectAccess:
    """A read or a deletion of an object by a worker."""

    name: str
    caller: str
    number: int
    began_s: float
    is_found: bool
    """The object was there: the answer had a status of 200 to 299."""


def object_writes(requests: Iterable[StorageRequest]) -> tuple[ObjectWrite, ...]:
    """The writes of workers to objects that are not tpuctl's own, in the order they began.

    The requests of one resumable or multipart upload are one write.
    """
    uploads: dict[int, list[StorageRequest]] = {}
    for request in requests:
        if request.method in WRITING_METHODS and is_of_program(request):
            uploads.setdefault(request.upload or request.number, []).append(request)
    return tuple(_write(number, uploads[number]) for number in sorted(uploads))


def object_reads(requests: Iterable[StorageRequest]) -> tuple[ObjectAccess, ...]:
    """The reads of workers of objects that are not tpuctl's own."""
    return _accesses(requests, READING_METHODS)


def object_deletions(requests: Iterable[StorageRequest]) -> tuple[ObjectAccess, ...]:
    """The deletions of workers of objects that are not tpuctl's own."""
    return _accesses(requests, DELETING_METHODS)


def is_of_program(request: StorageRequest) -> bool:
    """Whether a worker's program sent a request, as far as the object's name tells."""
    return bool(request.caller and request.object) and not request.object.startswith(OWN_PREFIX)


def _write(number: int, parts: list[StorageRequest]) -> ObjectWrite:
    made = next((part for part in parts if part.generation), None)
    complete_s = None
    if made is not None:
        # The answer of an object that is there may have been held until the worker was dead.
        complete_s = made.began_s if made.ended_s is None else made.ended_s
    first = parts[0]
    return ObjectWrite(
        f"{first.bucket}/{first.object}",
        first.caller,
        number,
        first.began_s,
        complete_s,
        sum(part.body_bytes for part in parts),
        is_copy=first.method in COPYING_METHODS,
    )


def _accesses(
    requests: Iterable[StorageRequest], methods: frozenset[str]
) -> tuple[ObjectAccess, ...]:
    return tuple(
        ObjectAccess(
            f"{request.bucket}/{request.object}",
            request.caller,
            request.number,
            request.began_s,
            200 <= request.status < 300 or (request.status == 0 and request.body_bytes > 0),
        )
        for request in requests
        if request.method in methods and is_of_program(request)
    )
