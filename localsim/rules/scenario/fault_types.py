"""Faults that are injected on purpose: in calls, workers, zones, capacity, quota and storage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from localsim.rules.model.cloud_errors import Code
from localsim.rules.scenario.scenario_checks import ANY


class Fault:
    """Something that goes wrong on purpose."""


class StorageFaultEffect:
    """What happens to a call of Cloud Storage."""


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """What happens to one call instead of, or before, its answer."""

    latency_s: float = 0.0
    """Simulated seconds before anything else."""
    code: Code | None = None
    """The refusal that the client gets."""
    reset: bool = False
    """Whether the connection is dropped without a word."""
    loses_answer: bool = False
    """Whether it is dropped after the call has had its effect."""

    def __add__(self, other: "FaultEffect") -> "FaultEffect":
        """Join two effects: the latencies add up, the first refusal counts."""
        return FaultEffect(
            self.latency_s + other.latency_s,
            self.code or other.code,
            self.reset or other.reset,
            self.loses_answer or other.loses_answer,
        )


@dataclass(frozen=True, slots=True)
class MethodFault(Fault):
    """Calls of a method go wrong, `times` of them (None: all) after the first `after`."""

    method: str
    verdict: FaultEffect
    times: int | None = None
    after: int = 0

    def concerns(self, method: str) -> bool:
        """Whether it concerns calls of the method."""
        return self.method in (method, ANY)

    def strikes(self, calls: int) -> bool:
        """Whether it strikes a call that comes after `calls` others."""
        return self.after <= calls and not self.is_over(calls)

    def is_over(self, calls: int) -> bool:
        """Whether it strikes no call that comes after `calls` others or later."""
        return self.times is not None and calls >= self.after + self.times


@dataclass(frozen=True, slots=True)
class BootFault(Fault):
    """One worker of the nodes whose ids match the pattern never boots."""

    node: str
    worker: int


class WorkerFaultKind(StrEnum):
    """The faults of a worker that is up."""

    HANGS = "hangs"
    KILLED = "killed"
    CUT_OFF = "cut off"
    DISK_FULL = "disk full"
    SLOW = "slow"
    REFUSES_SSH = "refuses ssh"


@dataclass(frozen=True, slots=True)
class WorkerFault(Fault):
    """A fault of one worker of the nodes whose ids match the pattern."""

    node: str
    worker: int
    trouble: WorkerFaultKind
    factor: float = 1.0
    """How many times slower it is, when it is slow."""


@dataclass(frozen=True, slots=True)
class SshKeysDelay(Fault):
    """The workers of the nodes whose ids match refuse every SSH key for a while after boot."""

    node: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class UnreachableZone(Fault):
    """The control plane of a zone does not answer."""

    zone: str


@dataclass(frozen=True, slots=True)
class UnreachableVpc(Fault):
    """Nobody outside of the VPC reaches the workers, which run on."""


@dataclass(frozen=True, slots=True)
class CapacityOverride(Fault):
    """A zone has this many slices of a type, whatever the scenario says."""

    zone: str
    accelerator_type: str
    slices: int

    def concerns(self, zone: str, accelerator_type: str) -> bool:
        """Whether it concerns slices of the type in the zone."""
        return self.zone in (zone, ANY) and self.accelerator_type in (accelerator_type, ANY)


@dataclass(frozen=True, slots=True)
class QuotaOverride(Fault):
    """A quota has this limit in a zone or region, or everywhere, whatever the scenario says."""

    quota_id: str
    location: str
    limit: int

    def concerns(self, quota_id: str, location: str) -> bool:
        """Whether it concerns the quota in the zone or region."""
        return self.quota_id == quota_id and self.location in (location, ANY)


@dataclass(frozen=True, slots=True)
class StorageLatency(StorageFaultEffect):
    """The call waits for simulated seconds before anything else."""

    time_s: float


@dataclass(frozen=True, slots=True)
class StorageRefusal(StorageFaultEffect):
    """The answer is an HTTP error."""

    status: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectionReset(StorageFaultEffect):
    """The connection is reset without an answer."""


@dataclass(frozen=True, slots=True)
class LateRefusal(StorageFaultEffect):
    """The answer is an HTTP error after some bytes of an upload; a session keeps them."""

    status: int
    after_bytes: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectionCut(StorageFaultEffect):
    """The connection ends after some bytes of a body were received or sent."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class TransferStall(StorageFaultEffect):
    """Nothing moves for some simulated seconds after some bytes of a body."""

    time_s: float
    after_bytes: int


@dataclass(frozen=True, slots=True)
class DiskFull(StorageFaultEffect):
    """The disk takes no more after some bytes of an upload."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LostReply(StorageFaultEffect):
    """A resumable upload is finished, and only some bytes of the reply arrive."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class BandwidthLimit(StorageFaultEffect):
    """Bodies are received and sent at this many bytes a simulated second."""

    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Corruption(StorageFaultEffect):
    """One bit of the bytes that are sent differs from the object's."""


@dataclass(frozen=True, slots=True)
class StorageFault(Fault):
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


class FaultKind(StrEnum):
    """What a fault concerns; public as `kind` of a fault's row on the control port."""

    METHOD = "method"
    STORAGE = "storage"
    BOOT = "boot"
    WORKER = "worker"
    WORKER_KILLED = "worker-killed"
    """Apart from the other faults of workers, because its effect stays when the fault has ended."""
    SSH_KEYS = "ssh-keys"
    ZONE = "zone"
    VPC = "vpc"
    CAPACITY = "capacity"
    QUOTA = "quota"


_KINDS: Mapping[type, FaultKind] = {
    MethodFault: FaultKind.METHOD,
    StorageFault: FaultKind.STORAGE,
    BootFault: FaultKind.BOOT,
    WorkerFault: FaultKind.WORKER,
    SshKeysDelay: FaultKind.SSH_KEYS,
    UnreachableZone: FaultKind.ZONE,
    UnreachableVpc: FaultKind.VPC,
    CapacityOverride: FaultKind.CAPACITY,
    QuotaOverride: FaultKind.QUOTA,
}


def kind_of(fault: Fault) -> FaultKind:
    """What the fault concerns."""
    if isinstance(fault, WorkerFault) and fault.trouble is WorkerFaultKind.KILLED:
        return FaultKind.WORKER_KILLED
    return _KINDS[type(fault)]
