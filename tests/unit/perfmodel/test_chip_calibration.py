"""What was fitted: few constants, each told what it means and what it is without its generation."""

import dataclasses
import json
from pathlib import Path

import pytest

from tpuctl import catalog
from tpuctl.perfmodel.chip import calibration
from tpuctl.perfmodel.chip.calibration import Constants

GENERATIONS = tuple(each.name for each in catalog.generations())
NAMES = {field.name for field in dataclasses.fields(Constants)}
SHARES = {"compute_efficiency", "memory_efficiency", "ici_efficiency", "dcn_efficiency"}
FILE = json.loads(Path(calibration.__file__).with_name("pooled.json").read_text("utf-8"))


@pytest.mark.parametrize("generation", GENERATIONS)
def test_at_most_six_constants_are_fitted_to_a_generation(generation):
    own = catalog.generation(generation).calibration
    assert set(own) <= NAMES == set(FILE["constants"])
    assert sum(row.rows > 0 for row in own.values()) <= 6


def test_a_generation_that_nobody_measured_is_as_the_others():
    unmeasured = [one.name for one in catalog.generations() if not one.calibration]
    assert unmeasured
    for generation in unmeasured:
        devices = catalog.generation(generation).devices_per_chip
        expected = calibration.for_devices(FILE["constants"], devices)
        assert dataclasses.asdict(calibration.constants(generation)) == expected


def test_the_devices_of_a_chip_take_turns_in_a_step_of_a_collective():
    both, one = (calibration.for_devices(FILE["constants"], devices) for devices in (2, 1))
    assert one == FILE["constants"]
    assert both == one | {"collective_step_s": 2 * one["collective_step_s"]}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_no_constant_says_that_a_chip_beats_its_peak(generation):
    fitted = dataclasses.asdict(calibration.constants(generation))
    assert all(0 < fitted[name] <= 1 for name in SHARES)
    assert all(
        0 < fitted[name] < 1e-4 for name in NAMES if name.endswith("_s") and "per" not in name
    )


@pytest.mark.parametrize("kind", FILE["spread"])
def test_an_interval_holds_its_value(kind):
    spread = calibration.spread(kind)
    assert 0 < spread.low <= 1 <= spread.high


def test_a_constant_says_where_it_comes_from():
    fitted, pooled = calibration.sources("tpu7x", ("launch_s", "dma_launch_s"))
    assert fitted.startswith("launch_s: fitted to ")
    assert pooled == (
        "dma_launch_s: no public measurement on tpu7x, as fitted on other generations"
    )


def test_an_unknown_generation_is_the_catalog_s_error():
    with pytest.raises(catalog.UnknownError):
        calibration.constants("v9")
