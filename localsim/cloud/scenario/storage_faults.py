"""Faults of calls of Cloud Storage that are injected on purpose."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class StorageLatency:
    """The call waits for simulated seconds before anything else."""

    time_s: float


@dataclass(frozen=True, slots=True)
class StorageRefusal:
    """The answer is an HTTP error."""

    status: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectionReset:
    """The connection is reset without an answer."""


@dataclass(frozen=True, slots=True)
class LateRefusal:
    """The answer is an HTTP error after some bytes of an upload; a session keeps them."""

    status: int
    after_bytes: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectionCut:
    """The connection ends after some bytes of a body were received or sent."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class TransferStall:
    """Nothing moves for some simulated seconds after some bytes of a body."""

    time_s: float
    after_bytes: int


@dataclass(frozen=True, slots=True)
class DiskFull:
    """The disk takes no more after some bytes of an upload."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LostReply:
    """A resumable upload is finished, and only some bytes of the reply arrive."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class BandwidthLimit:
    """Bodies are received and sent at this many bytes a simulated second."""

    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Corruption:
    """One bit of the bytes that are sent differs from the object's."""


StorageFaultEffect = (
    StorageLatency
    | StorageRefusal
    | ConnectionReset
    | LateRefusal
    | ConnectionCut
    | TransferStall
    | DiskFull
    | LostReply
    | BandwidthLimit
    | Corruption
)


@dataclass(frozen=True, slots=True)
class StorageFault:
    """It happens `times` (None: always) to calls of the methods, the first `after` spared."""

    methods: str
    """`storage.objects.get`, or a pattern: `storage.*`."""
    effect: StorageFaultEffect
    times: int | None = None
    after: int = 0

    def concerns(self, method: str) -> bool:
        """Whether it concerns calls of the method."""
        return fnmatchcase(method, self.methods)

    def is_over(self, met: int) -> bool:
        """Whether it has struck as often as it should."""
        return self.times is not None and met >= self.times


@dataclass(frozen=True, slots=True)
class ArmedStorageFault:
    """A fault that one call may meet, with the function that counts its strike."""

    effect: StorageFaultEffect
    strike: Callable[[], bool]
    """Count that it happens now; False where other calls have used it up, and it must not."""
