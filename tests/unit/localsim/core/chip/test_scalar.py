"""Units work beside each other; a tiled matmul has the numbers of a whole one, and its own time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.core import Chip, Counters, MemoryFullError
from localsim.core.chip import pipeline, tiled
from localsim.core.chip.scalar import ScalarUnit
from tpuctl.perfmodel import chip as model

CYCLE_S = 1 / 1.5e9
"""Of v5e."""


def test_units_work_beside_each_other_and_each_in_its_order():
    scalar = ScalarUnit("v5e")
    first_s = scalar.issue("dma", 1.0)
    second_s = scalar.issue("dma", 1.0)
    product_s = scalar.issue("mxu", 1.5)
    assert first_s == pytest.approx(1 + CYCLE_S)
    assert second_s == first_s + 1
    assert product_s == pytest.approx(1.5 + 3 * CYCLE_S)
    assert scalar.busy_s == {"dma": 2, "mxu": 1.5, "vpu": 0}
    assert scalar.now_s == pytest.approx(3 * CYCLE_S)
    assert scalar.finish() == second_s


def test_nothing_is_issued_while_the_scalar_unit_waits():
    scalar = ScalarUnit("v5e")
    scalar.wait(scalar.issue("dma", 1.0))
    assert scalar.issue("mxu", 1.0) == pytest.approx(2 + 2 * CYCLE_S)
    scalar.wait(0.5)
    assert scalar.now_s == pytest.approx(1 + 2 * CYCLE_S)


def test_one_dma_is_issued_a_cycle():
    scalar = ScalarUnit("v5e")
    for _ in range(1500):
        scalar.issue("dma", 0.0)
    assert scalar.finish() == pytest.approx(1e-6)


sides = st.tuples(*[st.integers(1, 40)] * 3)


@given(sides, sides, st.sampled_from(["v4", "v5e", "tpu7x"]))
def test_the_time_is_between_full_overlap_and_none(shape, side, generation):
    plan = list(tiled.tiles(shape, side))
    work = [
        pipeline.tile_work(generation, each.sides, ("bf16", "bf16"), is_last=each.is_last)
        for each in plan
    ]
    scalar = pipeline.simulate_kernel(generation, work)
    longest_s, all_s = max(scalar.busy_s.values()), sum(scalar.busy_s.values())
    issues = 3 * len(work) + sum(each.is_last for each in plan)
    assert longest_s < scalar.now_s < 1.0001 * (all_s + issues * 1e-9)


@given(sides, sides, st.integers(0, 2**32 - 1))
def test_the_numbers_are_those_of_a_whole_product(shape, side, seed):
    m, k, n = shape
    random = np.random.default_rng(seed)
    left, right = random.integers(-8, 9, (m, k)), random.integers(-8, 9, (k, n))
    chip = Chip("v5e")
    product = tiled.matmul(chip, chip.put(left, "bf16"), chip.put(right, "bf16"), side)
    assert np.array_equal(product, left @ right)
    assert chip.counters.flops == 2 * m * k * n


def test_tiles_cover_a_product_once_and_end_each_block_once():
    covered = np.zeros((10, 7, 9), int)
    plan = list(tiled.tiles((10, 7, 9), (4, 3, 5)))
    for tile in plan:
        covered[tile.rows, tile.depth, tile.columns] += 1
    assert (covered == 1).all()
    blocks = [(tile.rows.start, tile.columns.start) for tile in plan if tile.is_last]
    assert sorted(set(blocks)) == sorted(blocks)
    assert len(blocks) == 3 * 2


def test_overlap_saves_time_and_rereading_costs_bytes():
    chip = Chip("v5e")
    random = np.random.default_rng(0)
    left, right = (chip.put(random.standard_normal((1024, 1024)), "bf16") for _ in range(2))
    whole = chip.matmul(left, right)
    before = chip.counters
    product = tiled.matmul(chip, left, right, (512, 256, 512))
    done = chip.counters - before
    assert np.linalg.norm(product - whole) <= 3e-7 * np.linalg.norm(whole)
    # Each operand passes twice, as there are two blocks along the other's side.
    assert done.hbm_bytes == 2 * 2 * 2 * 1024**2 + 4 * 1024**2
    plan = tiled.tiles((1024,) * 3, (512, 256, 512))
    work = [
        pipeline.tile_work("v5e", each.sides, ("bf16", "bf16"), is_last=each.is_last)
        for each in plan
    ]
    busy_s = pipeline.simulate_kernel("v5e", work).busy_s
    launch_s = model.elementwise("v5e", 0, 0).value_s
    assert done.mxu_busy_s == pytest.approx(busy_s["mxu"])
    assert max(busy_s.values()) < done.modelled_s - launch_s < 0.8 * sum(busy_s.values())


@pytest.mark.parametrize(("load_s", "product_s", "add_s"), [(10, 1, 1), (1, 10, 1), (1, 1, 10)])
def test_the_busiest_unit_sets_the_pace(load_s, product_s, add_s):
    """It works without a pause; the others' first and last tile, and the store, come on top."""
    tiles = [
        pipeline.TileWork(
            Counters(mxu_busy_s=product_s), 1, int(number == 4), load_s, add_s, store_s=3
        )
        for number in range(5)
    ]
    scalar = pipeline.simulate_kernel("v5e", tiles)
    assert scalar.busy_s == {"dma": 5 * load_s + 3, "mxu": 5 * product_s, "vpu": 5 * add_s}
    assert scalar.now_s == pytest.approx(5 * 10 + 1 + 1 + 3, abs=1e-6)


def test_a_block_leaves_while_the_next_is_begun():
    block = pipeline.TileWork(Counters(mxu_busy_s=1), 1, 1, load_s=1, add_s=1, store_s=10)
    # Loads and stores go one after the other; the last store waits for its product and its sum.
    assert pipeline.simulate_kernel("v5e", [block] * 5).now_s == pytest.approx(
        5 * (1 + 10), abs=1e-6
    )


def test_one_tile_cannot_overlap():
    work = pipeline.tile_work("v5e", (512, 512, 512), ("bf16", "bf16"), is_last=True)
    scalar = pipeline.simulate_kernel("v5e", [work])
    assert scalar.now_s == pytest.approx(sum(scalar.busy_s.values()), abs=5 * CYCLE_S)


def test_int8_and_fp8_go_the_same_way():
    chip = Chip("v5e")
    least = chip.put(np.full((20, 300), -128, np.int8), "int8")
    product = tiled.matmul(chip, least, least.T, (8, 128, 8))
    assert (product.dtype, np.unique(product).tolist()) == (np.int32, [300 * 128**2])
    codes = chip.put(np.full((20, 30), 1.5), "e4m3")
    assert np.unique(tiled.matmul(chip, codes, codes.T, (8, 8, 8))).tolist() == [67.5]


def test_a_kernel_takes_the_energy_of_its_format():
    energies = []
    for values, dtype in ((np.ones((64, 64), np.int8), "int8"), (np.ones((64, 64)), "bf16")):
        chip = Chip("v4")
        held = chip.put(values, dtype)
        tiled.matmul(chip, held, held, (32, 32, 32))
        done = chip.counters
        bytes_j = 8 * 3.97e-12 * done.hbm_bytes
        energies.append((done.energy_j - 90 * done.modelled_s - bytes_j) / (done.flops / 2))
    # Joules of a multiplication and an addition (Jouppi et al., ISCA 2021, table 2).
    assert energies == pytest.approx([0.10e-12, 0.59e-12])


def test_nothing_to_multiply_costs_nothing():
    chip = Chip("v5e")
    empty = chip.put(np.ones((0, 5)), "bf16")
    assert tiled.matmul(chip, empty, chip.put(np.ones((5, 3)), "bf16"), (8, 8, 8)).shape == (0, 3)
    assert chip.counters.modelled_s == 0


def test_two_of_everything_must_fit_vmem():
    chip = Chip("v4")
    held = chip.put(np.ones((8, 8)), "bf16")
    with pytest.raises(MemoryFullError, match=r"96 MiB of VMEM for two tiles of .* 32 MiB"):
        tiled.matmul(chip, held, held, (2048, 2048, 2048))
    assert chip.vmem.used_bytes == 0


def test_what_has_no_tiles_is_refused():
    chip = Chip("v5e")
    held = chip.put(np.ones((4, 4)), "bf16")
    with pytest.raises(ValueError, match="no tiles of"):
        tiled.matmul(chip, held, held, (0, 4, 4))
    with pytest.raises(ValueError, match="not in HBM of this chip"):
        tiled.matmul(chip, held, chip.dma(held, "vmem"), (4, 4, 4))
