"""A part of a chip as if it were one: what JAX calls a device, or one TensorCore."""

from dataclasses import replace

from tpuctl import catalog

PARTS = ("chip", "device", "tensorcore")


def part_count(generation: str, part: str) -> int:
    """How many of a part a chip has: chip, device (what JAX counts) or tensorcore.

    Raises ValueError for another name, catalog.UnknownError for an unknown generation.
    """
    if part not in PARTS:
        raise ValueError(f"unknown part {part!r}; one of: {', '.join(PARTS)}")
    known = catalog.generation(generation)
    counts = (1, known.devices_per_chip, known.chip.tensorcores)
    return counts[PARTS.index(part)]


def chip_share(chip: catalog.Chip, parts: int) -> catalog.Chip:
    """One of so many equal parts of a chip: its share of peaks, memory and network."""
    if parts == 1:
        return chip
    return replace(
        chip,
        tensorcores=chip.tensorcores // parts,
        bf16_flops=chip.bf16_flops // parts,
        int8_ops=chip.int8_ops and chip.int8_ops // parts,
        fp8_flops=chip.fp8_flops and chip.fp8_flops // parts,
        hbm_bytes=chip.hbm_bytes // parts,
        hbm_usable_bytes=chip.hbm_usable_bytes and chip.hbm_usable_bytes // parts,
        hbm_bytes_per_s=chip.hbm_bytes_per_s // parts,
        dcn_bytes_per_s=chip.dcn_bytes_per_s and chip.dcn_bytes_per_s // parts,
    )
