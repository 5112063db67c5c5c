"""A row of the matmul sweep: times of two kinds that cannot be taken for each other."""

import numpy as np
import pytest

from localsim.bench import matmuls
from localsim.core import Chip
from tpuctl.perfmodel import chip as model

KEYS = [
    "dtype",
    "m",
    "k",
    "n",
    "backend",
    "host_measured_s",
    "host_measured_ops_per_s",
    "chip_modelled_s",
    "chip_modelled_low_s",
    "chip_modelled_high_s",
    "chip_modelled_ops_per_s",
]


@pytest.mark.parametrize(
    ("dtype", "of_the_model", "operand_bytes"), [("bf16", "bf16", 2), ("e4m3", "fp8", 1)]
)
def test_what_is_modelled_is_what_the_model_says_and_the_rest_was_measured(
    dtype, of_the_model, operand_bytes
):
    row = matmuls.matmul_row("v5e", dtype, (8, 16, 24))
    hbm_bytes = (8 * 16 + 16 * 24) * operand_bytes + 8 * 24 * 4
    modelled = model.matmul("v5e", 8, 16, 24, dtype=of_the_model, hbm_bytes=hbm_bytes)
    assert list(row) == KEYS
    assert (row["chip_modelled_s"], row["chip_modelled_low_s"], row["chip_modelled_high_s"]) == (
        modelled.value_s,
        modelled.low_s,
        modelled.high_s,
    )
    assert row["chip_modelled_ops_per_s"] * modelled.value_s == pytest.approx(2 * 8 * 16 * 24)
    assert row["host_measured_ops_per_s"] * row["host_measured_s"] == pytest.approx(2 * 8 * 16 * 24)


def test_what_is_modelled_of_a_product_is_what_it_costs_a_program():
    chip = Chip("v6e")
    chip.matmul(*[np.zeros((256, 256), np.float32)] * 2)
    row = matmuls.matmul_row("v6e", "bf16", (256, 256, 256))
    assert row["chip_modelled_s"] == chip.counters.modelled_s


def test_every_format_in_every_shape_until_time_is_over():
    shapes = [(8, 8, 8), (16, 8, 8)]
    rows = list(matmuls.matmul_rows("v6e", lambda: False, shapes))
    assert [(row["dtype"], row["m"]) for row in rows] == [
        (dtype, m) for m in (8, 16) for dtype in ("bf16", "int8", "e4m3")
    ]
    answers = iter([False, False, False, True])
    assert list(matmuls.matmul_rows("v6e", lambda: next(answers), shapes))[-1]["dtype"] == "e4m3"
