"""The requests of Cloud Storage that a simulator has logged."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StorageRequest:
    """One HTTP request; the field names are the keys of `GET /requests` on the control port."""

    number: int
    """From 1, in the order in which requests began."""
    method: str
    """As Google names it, such as `storage.objects.insert`."""
    bucket: str
    object: str
    """The name of the object; of a list, its prefix; of a request about a bucket, empty."""
    caller: str
    """`NODE/WORKER` of the worker that sent it; empty: it came from outside of the workers."""
    began_s: float
    """Simulated seconds since 1970."""
    ended_s: float | None
    """When its answer was complete; None: the connection ended, or it is under way."""
    status: int
    """The HTTP status of the answer; 0: there was none."""
    body_bytes: int
    """Bytes of the body that were received, or sent."""
    generation: int
    """The generation of the object that it made; 0: it made none."""
    upload: int
    """The number of the request with which its upload began (a resumable or multipart upload has
    several requests); 0: it is not part of an upload."""
