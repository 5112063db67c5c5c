"""A chip computes, and says what it would have cost."""

from threading import Barrier, Thread

import ml_dtypes
import numpy as np
import pytest

from localsim.core import Chip, Counters
from localsim.core.chip import tiled
from localsim.core.chip.activity import Activity
from localsim.guest.localsim_chips import executions
from tpuctl.catalog import UnknownError, generation
from tpuctl.perfmodel import chip as model


def test_a_matmul_is_computed_and_counted():
    chip = Chip("v5e")
    product = chip.matmul(np.ones((8, 128)), np.full((128, 256), 2))
    assert product.dtype == np.float32
    assert np.array_equal(product, np.full((8, 256), 256))
    hbm_bytes = 2 * (8 * 128 + 128 * 256) + 4 * 8 * 256
    estimate = model.matmul("v5e", 8, 128, 256, hbm_bytes=hbm_bytes)
    flops = 2 * 8 * 128 * 256
    energy = model.energy(
        "v5e", macs=flops / 2, hbm_bytes=hbm_bytes, ici_bytes=0, seconds=estimate.value_s
    )
    assert chip.counters == Counters(
        flops=flops,
        hbm_bytes=hbm_bytes,
        mxu_busy_s=estimate.terms["compute"],
        energy_j=energy.value_j,
        modelled_s=estimate.value_s,
    )


def test_a_buffer_of_bfloat16_is_multiplied_as_the_array_it_was_made_of():
    random = np.random.default_rng(0)
    left, right = random.standard_normal((20, 30)), random.standard_normal((30, 40))
    chip = Chip("v5e")
    held_left, held_right = chip.put(left, "bf16"), chip.put(right, "bf16")
    of_arrays = chip.matmul(left, right)
    before = chip.counters
    assert np.array_equal(chip.matmul(held_left, held_right), of_arrays)
    assert chip.counters - before == before
    assert np.array_equal(chip.matmul(held_left, right), of_arrays)
    turned = chip.matmul(held_right.T, held_left.T)
    np.testing.assert_allclose(turned, of_arrays.T, rtol=1e-5, atol=1e-5)


def test_a_buffer_of_float32_is_rounded_and_read_in_full():
    chip = Chip("v5e")
    held = chip.put(np.full((8, 8), 1 + 2**-12))
    assert chip.matmul(held, np.eye(8)).tolist() == np.ones((8, 8)).tolist()
    assert chip.counters.hbm_bytes == (4 + 2 + 4) * 64


def test_operands_in_vmem_are_not_read_from_hbm():
    chip = Chip("v5e")
    far = chip.put(np.ones((512, 512)), "bf16")
    near = chip.dma(far, "vmem")
    before = chip.counters
    chip.matmul(near, near)
    done = chip.counters - before
    assert done.hbm_bytes == 4 * 512**2
    before = chip.counters
    chip.matmul(far, far)
    assert (chip.counters - before).modelled_s > done.modelled_s


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 2, 3), (5, 3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 1, 2, 3), (5, 3, 4)),
        ((0, 64), (64, 10)),
        ((4, 0), (0, 3)),
    ],
)
def test_batches_are_multiplied_as_numpy_does(left, right):
    random = np.random.default_rng(0)
    a, b = random.integers(-9, 10, left), random.integers(-9, 10, right)
    chip = Chip("v5e")
    expected = a @ b
    assert np.array_equal(chip.matmul(a, b), expected)
    assert chip.counters.flops == 2 * expected.size * left[-1]


def test_a_batch_is_one_kernel_and_rows_where_all_have_one_right_side():
    chip = Chip("v5e")
    chip.matmul(np.ones((10, 4, 128)), np.ones((128, 128)))
    rows = chip.counters
    chip.matmul(np.ones((40, 128)), np.ones((128, 128)))
    assert chip.counters - rows == rows
    before = chip.counters
    chip.matmul(np.ones((10, 4, 128)), np.ones((10, 128, 128)))
    # A matrix on the right for each: 4 rows take the time of 8.
    assert (chip.counters - before).mxu_busy_s == pytest.approx(2 * rows.mxu_busy_s)


@pytest.mark.parametrize(("left", "right"), [((0, 64), (64, 10)), ((4, 0), (0, 3))])
def test_a_product_of_nothing_costs_nothing(left, right):
    chip = Chip("v5e")
    chip.matmul(np.ones(left), np.ones(right))
    assert chip.counters == Counters()


def test_arrays_of_bfloat16_itself_are_taken_as_they_are():
    values = np.array([[1.5, -2.25], [3.0, 1e30]], ml_dtypes.bfloat16)
    chip = Chip("v5e")
    assert np.array_equal(chip.put(values, "bf16").values, values.astype(np.float32))
    assert np.array_equal(chip.matmul(values, np.eye(2)), values.astype(np.float32))


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
def test_codes_of_8_bits_are_multiplied_as_the_numbers_they_are(dtype):
    kind = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[dtype]
    values = np.random.default_rng(0).standard_normal((16, 16)).astype(kind)
    chip = Chip("v6e")
    exact = values.astype(np.float64) @ values.astype(np.float64)
    codes = values.view(np.uint8)
    np.testing.assert_allclose(chip.matmul(codes, codes, dtype=dtype), exact, rtol=1e-5, atol=1e-5)
    assert chip.counters.hbm_bytes == 2 * 256 + 4 * 256
    held = chip.put(values.astype(np.float32), dtype)
    np.testing.assert_allclose(chip.matmul(held, held), exact, rtol=1e-5, atol=1e-5)


def test_int8_is_multiplied_exactly_and_twice_as_fast():
    least = np.full((128, 4096), -128, np.int8)
    chip = Chip("v5e")
    product = chip.matmul(least, least.T, dtype="int8")
    assert product.dtype == np.int32
    assert np.unique(product).tolist() == [4096 * 128**2]
    of_int8 = chip.counters
    chip.matmul(least.astype(np.float32), least.T.astype(np.float32))
    of_bf16 = chip.counters - of_int8
    assert of_int8.flops == of_bf16.flops
    assert of_int8.mxu_busy_s < 0.6 * of_bf16.mxu_busy_s


@pytest.mark.parametrize(
    ("left", "right", "dtype", "refusal"),
    [
        (np.ones((2, 3)), np.ones((4, 5)), "bf16", "mismatch"),
        (np.ones((2, 2, 3)), np.ones((3, 3, 5)), "bf16", "broadcast"),
        (np.ones(3), np.ones((3, 3)), "bf16", "mismatch"),
        (np.ones((2, 2)), np.ones((2, 2)), "f64", "unknown dtype 'f64'; one of: bf16, f32,"),
    ],
)
def test_what_does_not_go_together_is_refused_before_it_costs(left, right, dtype, refusal):
    chip = Chip("v5e")
    with pytest.raises(ValueError, match=refusal):
        chip.matmul(left, right, dtype=dtype)
    assert chip.counters == Counters()


def test_formats_are_not_mixed():
    chip = Chip("v5e")
    held = chip.put(np.ones((2, 2), np.int8), "int8")
    with pytest.raises(ValueError, match="does not multiply int8 by f32"):
        chip.matmul(held, np.ones((2, 2)))


def test_traffic_and_what_is_done_elsewhere_can_be_charged():
    chip = Chip("v5e")
    chip.charge_traffic(12_000)
    assert chip.counters.hbm_bytes == 12_000
    assert chip.counters.modelled_s == model.elementwise("v5e", 12_000, 0).value_s
    chip.charge(Counters(ici_bytes=7, modelled_s=1.0))
    assert chip.counters.ici_bytes == 7
    assert chip.counters.modelled_s > 1


def test_who_looks_is_told_what_was_done_since_the_last_look():
    chips = [Chip("v5e"), Chip("v5e")]
    look = Activity()
    look.chips = chips
    held = chips[0].put(np.ones((512, 512)), "bf16")
    chips[0].matmul(held, held)
    counters = chips[0].counters
    usage = look()
    assert usage.hbm_bytes == [held.size_bytes + 4 * 512**2, 0]
    assert usage.busy == pytest.approx(counters.mxu_busy_s / counters.modelled_s)
    usage = look()
    assert (usage.hbm_bytes, usage.busy) == ([held.size_bytes, 0], 0)


def test_who_looks_is_told_of_every_execution_and_of_the_bandwidth_since_the_last_look():
    chips = [Chip("v5e"), Chip("v5e")]
    look = Activity()
    look.chips = chips
    held = chips[0].put(np.ones((512, 512)), "bf16")
    times_us = []
    for _ in range(3):
        before_s = chips[0].counters.modelled_s
        chips[0].matmul(held, held)
        times_us.append(1e6 * (chips[0].counters.modelled_s - before_s))
    counters = chips[0].counters
    busy, idle = look().chips
    assert (busy["count"], idle["count"]) == (3, 0)
    assert busy["mean_us"] == pytest.approx(sum(times_us) / 3)
    assert sum(busy["buckets"]) == 3
    (at,) = (number for number, count in enumerate(busy["buckets"]) if count)
    assert executions.BOUNDS_US[at - 1] <= times_us[0] < executions.BOUNDS_US[at]
    could_bytes = generation("v5e").chip.hbm_bytes_per_s * counters.modelled_s
    assert busy["hbm_bandwidth"] == pytest.approx(counters.hbm_bytes / could_bytes)
    again = look().chips[0]
    assert (again["count"], again["hbm_bandwidth"]) == (3, 0.0)


def test_calls_of_threads_beside_the_one_that_executes_wait():
    chip, met, looked = Chip("v5e"), Barrier(4, timeout=20), Barrier(4, timeout=20)

    def hold(x):
        met.wait()
        looked.wait()
        return x

    threads = [Thread(target=chip.elementwise, args=(hold, np.ones(2))) for _ in range(3)]
    for thread in threads:
        thread.start()
    met.wait()
    waiting = chip.executions.report()["queue"]
    looked.wait()
    for thread in threads:
        thread.join(20)
    assert (waiting, chip.executions.report()["queue"]) == (2, 0)


@pytest.mark.parametrize("name", ["v99", "v5litepod-16"])
def test_there_is_no_chip_of_an_unknown_generation(name):
    with pytest.raises(UnknownError, match=f"'{name}'; nearest: v2, v3, v4, v5e, v5p, v6e, tpu7x"):
        Chip(name)


def test_what_is_no_array_of_the_chip_is_refused_in_a_line():
    chip, ones = Chip("v5e"), np.ones((2, 2))
    for left, right in (([[1.0, 2.0]], ones), (ones, None)):
        with pytest.raises(TypeError, match="an array or a Buffer is expected, not "):
            chip.matmul(left, right)
    with pytest.raises(TypeError, match=r"a Buffer is expected \(of Chip.put\), not ndarray"):
        chip.dma(ones, "vmem")
    with pytest.raises(TypeError, match=r"a Buffer is expected \(of Chip.put\), not ndarray"):
        tiled.matmul(chip, chip.put(ones, "bf16"), ones, (8, 8, 8))


@pytest.mark.parametrize("shape", [(2, 3), (0, 3)])
def test_what_is_put_stays_its_owners_to_write(shape):
    values = np.ones(shape, np.float32)
    held = Chip("v5e").put(values)
    values[...] = 5
    assert held.values.tolist() == np.ones(shape).tolist()


def test_a_narrow_product_stays_in_hbm_and_writes_less():
    left, right = np.random.default_rng(0).standard_normal((2, 64, 64))
    chip = Chip("v5e")
    wide = chip.matmul(left, right)
    before = chip.counters
    held = chip.matmul(left, right, result_dtype="bf16")
    assert (held.dtype, held.memory, held.size_bytes) == ("bf16", chip.hbm, 2 * 64 * 64)
    assert np.array_equal(held.values, wide.astype(ml_dtypes.bfloat16).astype(np.float32))
    assert (chip.counters - before).hbm_bytes == 3 * 2 * 64 * 64
    half = chip.matmul(left, right, result_dtype="f16")
    assert np.array_equal(np.asarray(half), wide.astype(np.float16))
    assert chip.hbm.used_bytes == 2 * 2 * 64 * 64


def test_a_narrow_product_of_integers_wraps_around():
    values = np.array([[100, 3]], np.int8)
    chip = Chip("v5e")
    held = chip.matmul(values, values.T, dtype="int8", result_dtype="int8")
    assert held.values.tolist() == [[(10_009 + 128) % 256 - 128]]
    assert chip.matmul(values, values.T, dtype="int8", result_dtype="int32").tolist() == [[10_009]]


@pytest.mark.parametrize(
    ("dtype", "result_dtype", "refusal"),
    [
        ("bf16", "int8", "a product of f32 cannot be 'int8'; one of: f32, bf16, f16, e4m3, e5m2"),
        ("int8", "bf16", "a product of int8 cannot be 'bf16'; one of: int32, int8"),
        ("bf16", "f64", "a product of f32 cannot be 'f64'"),
    ],
)
def test_what_a_product_cannot_be_is_refused(dtype, result_dtype, refusal):
    chip, ones = Chip("v5e"), np.ones((2, 2), np.int8)
    with pytest.raises(ValueError, match=refusal):
        chip.matmul(ones, ones, dtype=dtype, result_dtype=result_dtype)
    assert chip.counters == Counters()


def test_a_product_of_six_passes_costs_what_the_model_says_of_float32():
    left, right = np.ones((64, 256), np.float32), np.ones((256, 512), np.float32)
    chip = Chip("v5e")
    chip.matmul(left, right, precision="highest")
    hbm_bytes = left.nbytes + right.nbytes + 4 * 64 * 512
    estimate = model.matmul("v5e", 64, 256, 512, dtype="f32", hbm_bytes=hbm_bytes)
    flops = 2 * 64 * 256 * 512
    energy = model.energy(
        "v5e",
        macs=flops / 2,
        hbm_bytes=hbm_bytes,
        ici_bytes=0,
        seconds=estimate.value_s,
        dtype="f32",
    )
    six = chip.counters
    assert (six.flops, six.hbm_bytes) == (flops, hbm_bytes)
    assert six.mxu_busy_s == pytest.approx(estimate.terms["compute"])
    assert six.modelled_s == pytest.approx(estimate.value_s)
    assert six.energy_j == pytest.approx(energy.value_j)
    chip.matmul(left, right, precision="high")
    assert (chip.counters - six).mxu_busy_s == pytest.approx(six.mxu_busy_s / 2)
    before = chip.counters
    chip.matmul(left, right, dtype="f32")
    assert (chip.counters - before).mxu_busy_s == pytest.approx(six.mxu_busy_s / 6)


@pytest.mark.parametrize("precision", ["default", "high", "highest"])
def test_a_precision_makes_no_difference_to_what_is_narrow(precision):
    chip = Chip("v5e")
    held = chip.put(np.random.default_rng(0).standard_normal((32, 32)), "bf16")
    once = chip.matmul(held, held)
    default = chip.counters
    again = chip.matmul(held, held, precision=precision)
    assert np.array_equal(again, once)
    assert chip.counters - default == default
    assert np.array_equal(
        chip.matmul(np.asarray(held), held, precision=precision, dtype="bf16"), once
    )


def test_an_unknown_precision_is_refused():
    chip = Chip("v5e")
    with pytest.raises(ValueError, match="unknown precision 'x'; one of: default, high, highest"):
        chip.matmul(np.ones((2, 2)), np.ones((2, 2)), precision="x")


def test_half_precision_is_held_as_such_rounded_by_the_matrix_unit_and_converted_at_a_cost():
    values = np.random.default_rng(0).standard_normal((64, 64))
    halves = values.astype(np.float16)
    chip = Chip("v5e")
    held = chip.put(halves, "f16")
    assert (held.values.dtype, held.size_bytes) == (np.float16, 2 * 64 * 64)
    before = chip.counters
    product = chip.matmul(held, held)
    done = chip.counters - before
    assert np.array_equal(product, chip.matmul(halves, halves))
    assert np.array_equal(product, chip.matmul(halves, halves, dtype="f16"))
    estimate = model.matmul("v5e", 64, 64, 64, dtype="f16", hbm_bytes=done.hbm_bytes)
    assert (done.hbm_bytes, done.modelled_s) == ((2 + 2 + 4) * 64 * 64, estimate.value_s)
    exact = halves.astype(np.float64) @ halves.astype(np.float64)
    precise = chip.matmul(held, held, precision="highest")
    assert np.linalg.norm(precise - exact) < 3e-7 * np.linalg.norm(exact)
    assert chip.put(np.array([1e6]), "f16").values == np.inf


def test_masks_are_taken_by_every_operation():
    mask = np.array([[True, False], [True, True]])
    chip = Chip("v5e")
    held = chip.put(mask, "pred")
    assert (held.values.dtype, held.size_bytes) == (np.bool_, 4)
    assert chip.put(mask, "int8").values.tolist() == [[1, 0], [1, 1]]
    assert chip.put(mask, "bf16").values.tolist() == [[1, 0], [1, 1]]
    assert chip.matmul(mask, mask).tolist() == [[1, 0], [2, 1]]
    assert chip.matmul(mask, mask, dtype="int8").tolist() == [[1, 0], [2, 1]]
    assert chip.reduce("sum", held).item() == 3
    assert chip.reduce("sum", mask, 0).tolist() == [2, 1]
    chosen = chip.elementwise(lambda x, m: np.where(m, x, 0), np.full((2, 2), 7.0), held)
    assert chosen.tolist() == [[7, 0], [7, 7]]
    above = chip.elementwise(lambda x: x > 0, chosen, dtype="pred")
    assert np.array_equal(above, mask)
    assert chip.elementwise(lambda x: x > 0, chosen).tolist() == [[1, 0], [1, 1]]
