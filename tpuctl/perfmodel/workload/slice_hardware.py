"""What one device of a slice can do, and how the devices are joined."""

from dataclasses import dataclass
from functools import cache
from math import prod

from tpuctl import catalog
from tpuctl.perfmodel.chip.chip_part import chip_share
from tpuctl.perfmodel.chip.torus import Axis, axes


@dataclass(frozen=True, slots=True)
class SliceHardware:
    """The chips of a slice; a device is what JAX counts: a chip, or one TensorCore of it.

    `device` has the peaks of one device: where a chip is two devices, half of the chip's.
    """

    generation: str
    topology: str
    axes: tuple[Axis, ...]
    device: catalog.Chip
    devices_per_chip: int

    @property
    def chips(self) -> int:
        """Chips of the slice."""
        return prod(axis.length for axis in self.axes)

    @property
    def devices(self) -> int:
        """Devices of the slice."""
        return self.chips * self.devices_per_chip


@cache
def slice_hardware(generation: str, topology: str) -> SliceHardware:
    """The slice of a generation and topology (`4x4x8`).

    Raises catalog.UnknownError, and ValueError for what is not a topology.
    """
    known = catalog.generation(generation)
    return SliceHardware(
        generation=generation,
        topology=topology,
        axes=axes(generation, topology),
        device=chip_share(known.chip, known.devices_per_chip),
        devices_per_chip=known.devices_per_chip,
    )
