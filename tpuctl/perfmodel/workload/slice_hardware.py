"""What one device of a slice can do, and how the devices are joined."""

from dataclasses import dataclass, replace
from functools import cache
from math import prod

from tpuctl import catalog
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
        device=_device(known.chip, known.devices_per_chip),
        devices_per_chip=known.devices_per_chip,
    )


def _device(chip: catalog.Chip, devices: int) -> catalog.Chip:
    if devices == 1:
        return chip
    return replace(
        chip,
        tensorcores=chip.tensorcores // devices,
        bf16_flops=chip.bf16_flops // devices,
        int8_ops=chip.int8_ops and chip.int8_ops // devices,
        fp8_flops=chip.fp8_flops and chip.fp8_flops // devices,
        hbm_bytes=chip.hbm_bytes // devices,
        hbm_usable_bytes=chip.hbm_usable_bytes and chip.hbm_usable_bytes // devices,
        hbm_bytes_per_s=chip.hbm_bytes_per_s // devices,
        dcn_bytes_per_s=chip.dcn_bytes_per_s and chip.dcn_bytes_per_s // devices,
    )
