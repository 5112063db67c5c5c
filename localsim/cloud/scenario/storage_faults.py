"""What goes wrong on purpose with calls of Cloud Storage."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class StorageLatency:
    """Simulated seconds before anything else."""

    time_s: float


@dataclass(frozen=True, slots=True)
class StorageRefusal:
    """An HTTP error instead of an answer."""

    status: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectionReset:
    """The connection is reset without a word."""


@dataclass(frozen=True, slots=True)
class LateRefusal:
    """An HTTP error once so many bytes of an upload have come; a session keeps them."""

    status: int
    after_bytes: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectionCut:
    """The connection ends once so many bytes of a body have come or gone."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class TransferStall:
    """Nothing moves for simulated seconds once so many bytes of a body have come or gone."""

    time_s: float
    after_bytes: int


@dataclass(frozen=True, slots=True)
class DiskFull:
    """No disk takes any more once so many bytes of an upload have come."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LostReply:
    """An upload that resumes is finished, and so many bytes of the reply get through."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class BandwidthLimit:
    """Bodies come and go at so many bytes a simulated second."""

    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Corruption:
    """One bit of the bytes that are sent is not the object's."""


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
        """Whether calls of the method are meant."""
        return fnmatchcase(method, self.methods)

    def is_over(self, met: int) -> bool:
        """Whether it has happened as often as it should."""
        return self.times is not None and met >= self.times


@dataclass(frozen=True, slots=True)
class ArmedStorageFault:
    """What one call may meet."""

    effect: StorageFaultEffect
    strike: Callable[[], bool]
    """Count that it happens now; False where other calls have used it up, and it must not."""
