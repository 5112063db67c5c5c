"""What a chip holds is counted as the chip would hold it, and what would not fit is refused."""

import copy
import gc
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest

from localsim.core import Chip, MemoryFullError

GIB = 1 << 30


def nothing(*shape):
    """An array that takes no memory of this machine, whatever its shape."""
    return np.broadcast_to(np.float32(0), shape)


def test_memory_is_free_again_when_the_last_buffer_on_it_is_dropped():
    chip = Chip("v5e")
    weights = chip.put(np.ones((100, 50)), "bf16")
    assert chip.hbm.used_bytes == weights.size_bytes == 2 * 100 * 50
    turned = weights.T
    assert chip.hbm.used_bytes == 10_000
    del weights
    assert (chip.hbm.used_bytes, turned.shape) == (10_000, (50, 100))
    del turned
    assert chip.hbm.used_bytes == 0


@pytest.mark.parametrize(
    ("dtype", "values", "element_bytes"),
    [
        ("f32", np.ones(6), 4),
        ("bf16", np.ones(6), 2),
        ("e4m3", np.ones(6), 1),
        ("e5m2", np.ones(6), 1),
        ("int8", np.ones(6, np.int8), 1),
        ("int32", np.ones(6, np.int32), 4),
    ],
)
def test_hbm_holds_elements_without_gaps(dtype, values, element_bytes):
    assert Chip("v5e").put(values, dtype).size_bytes == 6 * element_bytes


@pytest.mark.parametrize(
    ("shape", "dtype", "tiles"),
    [
        ((8, 128), "f32", 1),
        ((9, 129), "f32", 4),
        ((16, 128), "bf16", 1),
        ((17, 128), "bf16", 2),
        ((32, 128), "e4m3", 1),
        ((), "f32", 1),
        ((129,), "f32", 2),
        ((3, 8, 128), "f32", 3),
        ((0, 128), "f32", 0),
    ],
)
def test_vmem_holds_whole_tiles(shape, dtype, tiles):
    assert Chip("v5e").put(np.ones(shape), dtype, "vmem").size_bytes == tiles * 4096


def test_what_would_not_fit_is_refused_with_the_sizes():
    chip = Chip("v5e")
    held = chip.hbm.allocate(int(13.1 * GIB), "weights")
    with pytest.raises(MemoryFullError) as refused:
        chip.put(nothing(30_000, 30_000))
    assert str(refused.value) == (
        "3.353 GiB of HBM for f32[30000,30000] do not fit v5e: 15.75 GiB, "
        "of which 13.1 GiB are in use"
    )
    assert chip.hbm.used_bytes == held.size_bytes
    with pytest.raises(MemoryFullError, match="1 bytes of VMEM for it do not fit v5e: 128 MiB"):
        all_of_it = chip.vmem.allocate(128 << 20, "all")
        chip.vmem.allocate(1, "it")
    del all_of_it


def test_an_operation_that_would_not_fit_is_refused_before_it_is_begun():
    chip = Chip("v5e")
    # The product alone would be 360 GB of this machine's memory.
    with pytest.raises(MemoryFullError, match=r"for f32\[300000,300000\] and its operands do"):
        chip.matmul(nothing(300_000, 1), nothing(1, 300_000))
    with pytest.raises(MemoryFullError, match="operands"):
        chip.elementwise(np.add, nothing(10**6, 10**6), nothing(10**6, 10**6))
    with pytest.raises(MemoryFullError):
        chip.reduce("sum", nothing(10**6, 10**6))
    assert (chip.hbm.used_bytes, chip.counters.modelled_s) == (0, 0)


def test_operands_and_result_of_one_call_fit_beside_what_is_held_or_not_at_all():
    chip = Chip("v5e")
    free_bytes = 2 * 8 * 8 * 2 + 4 * 8 * 8
    held = chip.hbm.allocate(chip.hbm.capacity_bytes - free_bytes, "the rest")
    chip.matmul(np.ones((8, 8)), np.ones((8, 8)))
    with pytest.raises(MemoryFullError):
        chip.matmul(np.ones((8, 8)), np.ones((8, 9)))
    del held


def test_the_greatest_use_of_hbm_is_told_once():
    chip = Chip("v5e")
    kept = chip.put(np.ones(1000))
    dropped = chip.put(np.ones(500))
    del dropped
    assert chip.hbm.take_peak_bytes() == 6000
    assert chip.hbm.take_peak_bytes() == kept.size_bytes
    chip.matmul(np.ones((8, 8)), np.ones((8, 8)))
    assert chip.hbm.take_peak_bytes() == kept.size_bytes + 2 * 2 * 64 + 4 * 64
    assert chip.hbm.peak_bytes == kept.size_bytes


def test_a_format_refused_holds_nothing():
    chip = Chip("v5e")
    with pytest.raises(ValueError, match="int8 values are expected, not float64") as refused:
        chip.put(np.ones(5), "int8")
    with pytest.raises(ValueError, match="complex128 is not a type of real numbers"):
        chip.put(np.ones(5, complex), "bf16")
    with pytest.raises(ValueError, match="unknown dtype 'f64'; one of: f32, bf16, "):
        chip.put(np.ones(5), "f64")
    with pytest.raises(ValueError, match="unknown memory 'disk'; one of: hbm, vmem"):
        chip.put(np.ones(5), memory="disk")
    assert chip.hbm.used_bytes == 0, refused


def test_a_chip_holds_a_copy_that_cannot_be_written():
    chip = Chip("v5e")
    given = np.ones(3, np.float32)
    held = chip.put(given)
    given[0] = 7
    assert held.values.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        held.values[0] = 2


def test_a_buffer_is_the_numbers_that_it_holds():
    chip = Chip("v5e")
    values = np.array([1.001, -300.0, 0.1], np.float32)
    for dtype, exact in [
        ("f32", np.float32),
        ("bf16", ml_dtypes.bfloat16),
        ("e4m3", ml_dtypes.float8_e4m3fn),
        ("e5m2", ml_dtypes.float8_e5m2),
    ]:
        held = np.asarray(chip.put(values, dtype))
        assert held.tolist() == values.astype(exact).astype(np.float32).tolist()
    codes = np.array([0, 0x38], np.uint8)
    assert np.asarray(chip.put(codes, "e4m3"), np.float64).tolist() == [0, 1]


def test_dma_holds_the_values_in_the_other_memory_too():
    chip = Chip("v5e")
    here = chip.put(np.ones((10, 10)), "bf16")
    there = chip.dma(here, "vmem")
    assert there.values is here.values
    assert (chip.hbm.used_bytes, chip.vmem.used_bytes) == (200, 4096)
    assert chip.counters.hbm_bytes == 200
    del here
    assert chip.hbm.used_bytes == 0
    back = chip.dma(there, "hbm")
    assert (repr(back), chip.hbm.used_bytes) == ("<bf16[10,10] in HBM>", 200)
    with pytest.raises(ValueError, match=r"<bf16\[10,10\] in HBM> is there already"):
        chip.dma(back, "hbm")


def test_a_buffer_is_of_use_to_the_chip_that_holds_it_alone():
    one, other = Chip("v5e"), Chip("v5e")
    held = one.put(np.ones((2, 2)))
    for use in (
        lambda: other.matmul(held, np.ones((2, 2))),
        lambda: other.elementwise(np.negative, held),
        lambda: other.reduce("sum", held),
        lambda: other.dma(held, "vmem"),
    ):
        with pytest.raises(ValueError, match="held by another chip"):
            use()


def test_memory_is_counted_right_where_many_threads_take_and_free_it():
    chip = Chip("v5e")

    def take_and_free():
        for _ in range(2000):
            chip.hbm.allocate(3, "a little")

    threads = [threading.Thread(target=take_and_free) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert chip.hbm.used_bytes == 0


def test_memory_in_a_cycle_is_free_once_that_is_collected():
    chip = Chip("v5e")
    cycle = [chip.put(np.ones(10))]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert chip.hbm.used_bytes == 0


@pytest.mark.parametrize("clone", [copy.deepcopy, pickle.dumps])
def test_what_a_chip_holds_cannot_be_copied_behind_its_back(clone):
    chip = Chip("v5e")
    held = chip.put(np.ones(3))
    with pytest.raises(TypeError, match="put its values again"):
        clone(held)
    assert chip.hbm.used_bytes == 12


def test_tensorcores_of_a_chip_are_taken_together():
    assert Chip("v4").vmem.capacity_bytes == 2 * 16 << 20
    assert Chip("v4").hbm.capacity_bytes == 30.75 * GIB
