"""The records of the catalog; None stands for a figure that is not public."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AcceleratorType:
    """One size of slice; `topology` counts chips along each axis."""

    name: str
    generation: str
    topology: str
    chips: int
    tensorcores: int
    workers: int
    chips_per_worker: int

    @property
    def size(self) -> str:
        """`single-worker` or `multi-worker`: some zones and prices hold for one of them only."""
        return "single-worker" if self.workers == 1 else "multi-worker"


@dataclass(frozen=True, slots=True)
class Chip:
    """Peak figures of one chip, all its TensorCores together; a link is counted one way.

    `hbm_usable_bytes` is what programs get of it, where that is known; `dcn_bytes_per_s` the chip's
    share of its host's network; `power_w` the least (idle), mean and most that were measured.
    """

    tensorcores: int
    bf16_flops: int
    int8_ops: int | None
    fp8_flops: int | None
    mxus_per_tensorcore: int
    mxu_side: int
    clock_hz: int | None
    hbm_bytes: int
    hbm_usable_bytes: int | None
    hbm_bytes_per_s: int
    vmem_bytes_per_tensorcore: int
    ici_links: int
    ici_bytes_per_s_per_link: int
    dcn_bytes_per_s: int | None
    power_w: tuple[float, float, float] | None

    @property
    def usable_bytes(self) -> int:
        """What programs get of the HBM; all of it where that is not known."""
        return self.hbm_usable_bytes or self.hbm_bytes


@dataclass(frozen=True, slots=True)
class ListPrice:
    """A public price as it was found; `size` is any, single-worker or multi-worker."""

    provisioning: str
    region: str
    size: str
    usd_per_chip_hour: float
    as_of: str
    source: str


@dataclass(frozen=True, slots=True)
class Price:
    """What a slice costs in a region; `as_of` is a date, or no more of one than is known."""

    usd_per_chip_hour: float
    usd_per_hour: float
    as_of: str
    region: str
    source: str


@dataclass(frozen=True, slots=True)
class QuotaNaming:
    """How the Cloud TPU API names and counts the quotas of a generation.

    An id is `stem`, `Preemptible` for preemptible capacity, `family`, the suffix of the slice's
    size (single-worker, multi-worker), then words that are the same for all generations.
    """

    stem: str
    family: str
    unit: str
    """What is counted: chips or cores (TensorCores)."""
    scope: str
    """What a limit holds for: zone or region."""
    suffixes: Mapping[str, str]

    def suffix(self, size: str) -> str:
        """The suffix of slices of one size, which may be empty."""
        return self.suffixes.get(size, "")

    def quota_id(self, size: str, *, is_preemptible: bool) -> str:
        """The id of the quota that slices of one size count against."""
        tier = "Preemptible" if is_preemptible else ""
        scope = f"PerProjectPer{self.scope.title()}ForTPUAPI"
        return f"{self.stem}{tier}{self.family}{self.suffix(size)}{scope}"

    @property
    def tells_sizes_apart(self) -> bool:
        """Whether slices of one worker have a quota of their own."""
        return self.suffix("single-worker") != self.suffix("multi-worker")


@dataclass(frozen=True, slots=True)
class SkuNaming:
    """How Google's list of SKUs names and counts the hours of a generation.

    `service` is whose list it is in, `words` are part of the description, and one unit is an hour
    of so many `chips`. `pods_apart` says that slices of several workers have a SKU of their own,
    with Pod in its description.
    """

    service: str
    words: str
    chips: int
    pods_apart: bool


@dataclass(frozen=True, slots=True)
class Calibration:
    """A constant of the chip model, fitted to `rows` public measurements of the generation."""

    value: float | None
    without_this_generation: float | None
    rows: int


@dataclass(frozen=True, slots=True)
class Generation:
    """A TPU generation; `device_node` is formatted with the index of a chip.

    `announced` is a month, YYYY-MM. `ring_length` is the length of an axis at which its ends are
    joined, None where whole cubes of 4x4x4 are joined. `devices_per_chip` is what frameworks count
    on a chip, `duty_cycle_per` what the metric service tells a duty cycle of: chip or device.
    `quota` is None for a generation that the Cloud TPU API does not offer, `sku` for one whose
    prices Google's list of SKUs does not have.
    """

    name: str
    announced: str
    marketing: str
    type_prefix: str
    config_enum: str | None
    api_creatable: bool
    chip: Chip
    types: tuple[AcceleratorType, ...]
    zones: tuple[str, ...]
    zones_by_size: Mapping[str, tuple[str, ...]]
    runtime_versions: tuple[str, ...]
    default_runtime_version: str | None
    prices: tuple[ListPrice, ...]
    multislice: bool
    flex_start: bool
    ring_length: int | None
    devices_per_chip: int
    duty_cycle_per: str
    quota: QuotaNaming | None
    sku: SkuNaming | None
    calibration: Mapping[str, Calibration]
    pci_id: str
    pci_subsystem_id: str
    device_node: str
    sources: Mapping[str, str]

    def zones_for(self, kind: AcceleratorType) -> tuple[str, ...]:
        """The zones that have slices of this size."""
        sizes = {"any", kind.size}
        return tuple(
            zone for size, zones in self.zones_by_size.items() if size in sizes for zone in zones
        )
