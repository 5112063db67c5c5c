"""Faults that are injected on purpose: in calls, workers, zones, capacity and quota."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from localsim.cloud.model.cloud_errors import Code
from localsim.cloud.scenario.scenario_checks import ANY
from localsim.cloud.scenario.storage_faults import StorageFault


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """What happens to one call instead of, or before, its answer."""

    latency_s: float = 0.0
    """Simulated seconds before anything else."""
    code: Code | None = None
    """The refusal that the client gets."""
    reset: bool = False
    """Whether the connection is dropped without a word."""

    def __add__(self, other: "FaultEffect") -> "FaultEffect":
        """Join two effects: the latencies add up, the first refusal counts."""
        return FaultEffect(
            self.latency_s + other.latency_s, self.code or other.code, self.reset or other.reset
        )


@dataclass(frozen=True, slots=True)
class MethodFault:
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
class BootFault:
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
class WorkerFault:
    """A fault of one worker of the nodes whose ids match the pattern."""

    node: str
    worker: int
    trouble: WorkerFaultKind
    factor: float = 1.0
    """How many times slower it is, when it is slow."""


@dataclass(frozen=True, slots=True)
class SshKeysDelay:
    """The workers of the nodes whose ids match refuse every SSH key for a while after boot."""

    node: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class UnreachableZone:
    """The control plane of a zone does not answer."""

    zone: str


@dataclass(frozen=True, slots=True)
class CapacityOverride:
    """A zone has this many slices of a type, whatever the scenario says."""

    zone: str
    accelerator_type: str
    slices: int

    def concerns(self, zone: str, accelerator_type: str) -> bool:
        """Whether it concerns slices of the type in the zone."""
        return self.zone in (zone, ANY) and self.accelerator_type in (accelerator_type, ANY)


@dataclass(frozen=True, slots=True)
class QuotaOverride:
    """A quota has this limit in a zone or region, or everywhere, whatever the scenario says."""

    quota_id: str
    location: str
    limit: int

    def concerns(self, quota_id: str, location: str) -> bool:
        """Whether it concerns the quota in the zone or region."""
        return self.quota_id == quota_id and self.location in (location, ANY)


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
    CAPACITY = "capacity"
    QUOTA = "quota"


Fault = (
    MethodFault
    | BootFault
    | WorkerFault
    | SshKeysDelay
    | UnreachableZone
    | CapacityOverride
    | QuotaOverride
    | StorageFault
)

_KINDS: Mapping[type, FaultKind] = {
    MethodFault: FaultKind.METHOD,
    StorageFault: FaultKind.STORAGE,
    BootFault: FaultKind.BOOT,
    WorkerFault: FaultKind.WORKER,
    SshKeysDelay: FaultKind.SSH_KEYS,
    UnreachableZone: FaultKind.ZONE,
    CapacityOverride: FaultKind.CAPACITY,
    QuotaOverride: FaultKind.QUOTA,
}


def kind_of(fault: Fault) -> FaultKind:
    """What the fault concerns."""
    if isinstance(fault, WorkerFault) and fault.trouble is WorkerFaultKind.KILLED:
        return FaultKind.WORKER_KILLED
    return _KINDS[type(fault)]
