from pathlib import Path

import pytest

from localsim.workers import chips
from tpuctl.catalog import accelerator_type

SEEN = {
    "v2-8": ("0x0027", "0x004e", ["/dev/accel0", "/dev/accel1", "/dev/accel2", "/dev/accel3"]),
    "v3-8": ("0x0027", "0x004f", ["/dev/accel0", "/dev/accel1", "/dev/accel2", "/dev/accel3"]),
    "v4-8": ("0x005e", None, ["/dev/accel0", "/dev/accel1", "/dev/accel2", "/dev/accel3"]),
    "v5litepod-1": ("0x0063", None, ["/dev/vfio/0", "/dev/vfio/vfio"]),
    "v5p-8": ("0x0062", None, [*(f"/dev/vfio/{chip}" for chip in range(4)), "/dev/vfio/vfio"]),
    "v6e-8": ("0x006f", None, [*(f"/dev/vfio/{chip}" for chip in range(8)), "/dev/vfio/vfio"]),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_generations_chips_have_its_ids_and_device_files(name: str, tmp_path: Path):
    device, subsystem, files = SEEN[name]
    kind = accelerator_type(name)
    chips.write_chips(tmp_path / "chips", kind)
    slots = sorted((tmp_path / "chips" / "devices").iterdir())
    assert len(slots) == kind.chips_per_worker
    assert slots[0].name == "0000:00:04.0"
    for slot in slots:
        assert (slot / "vendor").read_text().strip() == "0x1ae0"
        assert (slot / "device").read_text().strip() == device
        assert (slot / "subsystem_device").read_text().strip() == (subsystem or device)
        assert (slot / "class").read_text().strip() == "0xff0000"
    assert chips.device_files(kind) == files


def test_chips_used_through_vfio_have_an_iommu_group_each(tmp_path: Path):
    """tpu-info takes the number of a chip's device file from there, Ray the vendor of a group."""
    sys = tmp_path / "sys"
    (sys / "kernel").mkdir(parents=True)
    (sys / "bus" / "pci").mkdir(parents=True)
    chips.write_chips(tmp_path / "chips", accelerator_type("v6e-8"))
    (tmp_path / "chips" / "devices").rename(sys / "bus" / "pci" / "devices")
    (tmp_path / "chips" / "iommu_groups").rename(sys / "kernel" / "iommu_groups")
    slots = sorted((sys / "bus" / "pci" / "devices").iterdir())
    assert [(slot / "iommu_group").resolve().name for slot in slots] == [*map(str, range(8))]
    vendors = sorted(sys.glob("kernel/iommu_groups/*/devices/*/vendor"))
    assert {path.read_text() for path in vendors} == {"0x1ae0\n"}
    assert len(vendors) == 8
