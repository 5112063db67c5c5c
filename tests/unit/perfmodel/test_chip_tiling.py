"""Blocks of a product in VMEM, beside ones that are found by trying."""

import math

import pytest

from tpuctl import catalog
from tpuctl.perfmodel.chip import tiling

MIB = 1 << 20


def of(generation):
    return catalog.generation(generation).chip


def block_side(vmem_bytes, operand_bytes):
    """The largest whole side whose float32 block fits beside two blocks of each operand."""

    def fits(side):
        return 4 * side**2 + 2 * 2 * operand_bytes * side * 512 <= vmem_bytes

    return max(side for side in range(128, 10_000, 128) if fits(side))


@pytest.mark.parametrize(
    ("generation", "vmem_mib"), [("v4", 32), ("v5e", 32), ("v6e", 32), ("tpu7x", 64)]
)
@pytest.mark.parametrize("operand_bytes", [1, 2, 4])
def test_each_band_is_read_once_for_every_block_across(generation, vmem_mib, operand_bytes):
    m, k, n = 20_000, 10_000, 30_000
    side = block_side(vmem_mib * MIB, operand_bytes)
    left, right, result = operand_bytes * m * k, operand_bytes * k * n, 4 * m * n
    again = left * (math.ceil(n / side) - 1) + right * (math.ceil(m / side) - 1)
    found = tiling.reread_share(of(generation), operand_bytes, (float(m), float(k), float(n)), 4)
    assert found == pytest.approx(again / (left + right + result))


def test_a_matrix_stays_that_fills_half_of_a_kernel_s_vmem():
    k = 4096.0
    fits = 16 * MIB / (2 * k)
    assert tiling.reread_share(of("v6e"), 2, (fits, k, 9000.0), 2) == 0
    assert tiling.reread_share(of("v6e"), 2, (9000.0, k, fits), 2) == 0
    assert tiling.reread_share(of("v6e"), 2, (fits + 1, k, 9000.0), 2) > 0


def test_half_of_a_kernel_s_vmem_is_filled_while_nothing_is_computed():
    assert tiling.exposed_bytes(of("v6e")) == 16 * MIB
    assert tiling.exposed_bytes(of("tpu7x")) == 2 * 16 * MIB  # two TensorCores
    assert tiling.exposed_bytes(of("v4")) == 16 * MIB  # 16 MiB each: there is no more
