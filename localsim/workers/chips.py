"""What programs see of TPU chips on a host: PCI devices in /sys and files in /dev.

The readers are jax's hardware_utils and torch_xla (which count the devices of a vendor and device
id), tpu-info (also `subsystem_device`, and the IOMMU group of chips used through VFIO), Ray (the
vendor of a group's devices) and gloo (`class`). Established: vendor and device ids, the subsystem
ids of v2 and v3, the names in /dev; for v2 also the slots from 0000:00:04.0 on and the class ff00
(lspci on a v2-8), which is assumed for the other generations, as is one PCI function per chip.
"""

import shutil
from pathlib import Path

from tpuctl.catalog import AcceleratorType, generation

FIRST_SLOT = 4
PCI_CLASS = "0xff0000"
METRICS_PORT = 8431
"""Of libtpu's metric service."""
_VFIO = "/dev/vfio/"


def device_files(kind: AcceleratorType) -> list[str]:
    """Return the paths in /dev of a worker's chips, and of VFIO's container where it is used."""
    template = generation(kind.generation).device_node
    chips = [template.format(chip=chip) for chip in range(kind.chips_per_worker)]
    return [*chips, f"{_VFIO}vfio"] if template.startswith(_VFIO) else chips


def devices_per_chip(kind: AcceleratorType) -> int:
    """Return how many devices frameworks count on a chip: its TensorCores or itself."""
    return generation(kind.generation).devices_per_chip


def devices_per_worker(kind: AcceleratorType) -> int:
    """Return how many devices JAX counts on a worker."""
    return kind.chips_per_worker * devices_per_chip(kind)


def write_chips(directory: Path, kind: AcceleratorType) -> None:
    """Make what /sys shows of a worker's chips, all of it or none; raises OSError.

    `devices` is for /sys/bus/pci/devices, `iommu_groups` for /sys/kernel/iommu_groups: chips that
    are used through VFIO have a group each, in which Ray looks for their vendor.
    """
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    vendor, device = generation(kind.generation).pci_id.split(":")
    files = {
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "subsystem_vendor": f"0x{vendor}",
        "subsystem_device": f"0x{generation(kind.generation).pci_subsystem_id}",
        "class": PCI_CLASS,
    }
    groups = unfinished / "iommu_groups"
    groups.mkdir(parents=True)
    uses_vfio = generation(kind.generation).device_node.startswith(_VFIO)
    for chip in range(kind.chips_per_worker):
        name = f"0000:00:{FIRST_SLOT + chip:02x}.0"
        slot = unfinished / "devices" / name
        slot.mkdir(parents=True)
        for file, content in files.items():
            (slot / file).write_text(content + "\n")
        if uses_vfio:
            (slot / "iommu_group").symlink_to(f"../../../../kernel/iommu_groups/{chip}")
            members = groups / str(chip) / "devices"
            members.mkdir(parents=True)
            (members / name).symlink_to(f"../../../../bus/pci/devices/{name}")
    unfinished.rename(directory)
