"""What is measured on a slice, what the model says of it, and the factors that follow."""

import numpy as np
import pytest

from tpuctl.perfmodel import chip
from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.program import ProgramOperation, program_time
from tpuctl.perfmodel.workload.program.bench_rows import (
    KINDS,
    MIB,
    ORDERS,
    BenchRow,
    orders_of,
    predict_row,
)
from tpuctl.perfmodel.workload.program.term_calibration import (
    TermCalibration,
    calibrate,
    calibration_from,
)
from tpuctl.perfmodel.workload.serving.decode_step import decode_step
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.training.train_step import train_step

V5E = slice_hardware("v5e", "2x4")


def product(side, measured_s=1.0):
    return BenchRow("matmul", measured_s, m=side, k=side, n=side)


def test_a_row_is_predicted_as_the_chip_model_has_it():
    copied = BenchRow("copy", 1.0, size_bytes=256 * MIB)
    summed = BenchRow("collective", 1.0, exchange="all_reduce", size_bytes=16 * MIB)
    assert predict_row(V5E, product(4096)).value_s == pytest.approx(
        chip.matmul("v5e", 4096, 4096, 4096).value_s
    )
    assert predict_row(V5E, copied).value_s == pytest.approx(
        chip.elementwise("v5e", 256 * MIB, 256 * MIB).value_s
    )
    assert predict_row(V5E, summed).value_s == pytest.approx(
        chip.collective("all_reduce", "v5e", V5E.axes, 16 * MIB).value_s
    )


def test_a_train_step_on_one_device_sums_nothing():
    step = BenchRow("train_step", 1.0, layers=4, hidden=1024, rows_per_device=1024)
    assert "ici" in predict_row(V5E, step).terms
    assert "ici" not in predict_row(slice_hardware("v5e", "1x1"), step).terms


def test_only_some_kinds_are_ordered():
    assert orders_of(KINDS) == dict(ORDERS)
    assert orders_of(["copy"]) == {
        "products": [],
        "copies": [32 * MIB, 256 * MIB],
        "collectives": [],
        "train_steps": [],
    }


@pytest.mark.parametrize("measured_s", [0, -1, float("inf"), float("nan")])
def test_what_is_not_a_time(measured_s):
    with pytest.raises(ValueError, match="not a time"):
        product(8, measured_s)


def test_a_factor_is_measured_over_modelled_of_the_rows_that_the_term_rules():
    slow = [product(side, 2 * predict_row(V5E, product(side)).value_s) for side in (4096, 8192)]
    small = product(128, 1.0)  # launch rules it
    copied = BenchRow("copy", 1.0, size_bytes=256 * MIB)
    copied = BenchRow("copy", 1.1 * predict_row(V5E, copied).value_s, size_bytes=256 * MIB)
    calibration = calibration_from(V5E, [*slow, small, copied], "mine.json")
    assert calibration.factors == {"compute": pytest.approx(2), "memory": pytest.approx(1.1)}
    assert calibration.rows == {"compute": 2, "memory": 1}


def test_a_calibrated_estimate_has_other_terms_and_the_same_relative_interval():
    step = program_time(V5E, [ProgramOperation("matmul", sides=(8192, 8192, 8192))])
    rows = [product(8192, 2 * predict_row(V5E, product(8192)).value_s)]
    mine = calibrate(V5E, step, calibration_from(V5E, rows, "mine.json"))
    assert mine.terms["compute"] == pytest.approx(2 * step.terms["compute"])
    assert mine.terms["launch"] == step.terms["launch"]
    assert mine.value_s == pytest.approx(sum(mine.terms.values()))
    assert mine.high_s / mine.value_s == pytest.approx(step.high_s / step.value_s)
    assert mine.sources[-1] == "compute on v5e: x 2, 1 measured row of mine.json"


def test_a_factor_that_no_chip_has_is_refused():
    rows = [product(8192, 1000 * predict_row(V5E, product(8192)).value_s)]
    with pytest.raises(ValueError, match="compute took 1e\\+03 times what is modelled"):
        calibration_from(V5E, rows, "mine.json")


def test_rows_that_are_all_too_small():
    with pytest.raises(ValueError, match="no measured row is large enough"):
        calibration_from(V5E, [product(128)], "mine.json")


def test_every_term_of_a_service_that_a_chip_tells_takes_a_factor():
    run = ServingRun(4096, 1024, 256, Parallelism(tensor=8))
    model = known_transformer("mixtral-8x7b")
    factors = {"compute": 2.0, "memory": 3.0, "ici": 5.0}
    calibration = TermCalibration("v5e", factors, dict.fromkeys(factors, 1), "mine.json")
    step = decode_step(V5E, model, run)
    mine = calibrate(V5E, step, calibration)
    assert {name: round(mine.terms[name] / step.terms[name], 9) for name in step.terms} == {
        "weights": 3, "compute": 2, "cache": 3, "collectives": 5, "layers": 1, "step": 1,
        "prefill": 2,
    }  # fmt: skip
    assert mine.hidden["computed beside"] == pytest.approx(2 * step.hidden["computed beside"])


def test_a_training_step_takes_the_factors_by_what_its_terms_are_and_other_generations_none():
    run = TrainRun(np.array([8, 64]), 2048, Parallelism(fsdp=8), remat="full")
    model = known_transformer("llama-3-8b")
    rows = [product(8192, 3 * predict_row(V5E, product(8192)).value_s)]
    calibration = calibration_from(V5E, rows, "mine.json")
    step = train_step(V5E, model, run)
    mine = calibrate(V5E, step, calibration)
    assert mine.terms["attention"] == pytest.approx(3 * step.terms["attention"])
    assert mine.terms["optimizer"] == pytest.approx(step.terms["optimizer"])
    assert list(mine.bound) == ["matmul", "matmul"]
    assert mine.value_s.shape == (2,)
    assert calibrate(slice_hardware("v6e", "2x4"), step, calibration) is step
