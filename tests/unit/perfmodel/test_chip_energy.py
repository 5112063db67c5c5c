"""Energy of a chip, beside the power that was measured of TPU v4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl import catalog
from tpuctl.perfmodel import chip

GENERATIONS = tuple(each.name for each in catalog.generations())
COUNTS = st.floats(min_value=0, max_value=1e16)


def one_second(generation, macs=0.0, hbm_bytes=0.0):
    return chip.energy(generation, macs=macs, hbm_bytes=hbm_bytes, ici_bytes=0, seconds=1)


def test_v4_at_rest():
    """Jouppi et al., ISCA 2023: 90 W."""
    assert one_second("v4").value_j == 90


def test_v4_at_both_its_peaks_takes_about_what_was_measured_at_most():
    """ISCA 2023: 121 to 192 W in production; MLPerf: 197 W (BERT) and 206 W (ResNet)."""
    estimate = one_second("v4", macs=275e12 / 2, hbm_bytes=1.2e12)
    assert estimate.value_j == pytest.approx(206, rel=0.03)
    assert estimate.low_j < 192 < estimate.high_j < 250


def test_v4_in_production():
    """170 W on average: with half of its peaks it is near that."""
    estimate = one_second("v4", macs=0.5 * 275e12 / 2, hbm_bytes=0.5 * 1.2e12)
    assert estimate.value_j == pytest.approx(170, rel=0.15)
    assert not estimate.is_estimate


def test_what_each_operation_adds():
    """7 nm, Jouppi et al., ISCA 2021: .21 + .38 pJ in bfloat16, .07 + .03 pJ in int8."""
    figures = {
        dtype: chip.energy("v5e", macs=1e12, hbm_bytes=0, ici_bytes=0, seconds=0, dtype=dtype)
        for dtype in ("bf16", "int8")
    }
    assert figures["bf16"].value_j == pytest.approx(0.59)
    assert figures["int8"].value_j == pytest.approx(0.10)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_power_that_is_not_public_is_an_estimate_that_says_so(generation):
    is_public = catalog.generation(generation).chip.power_w is not None
    estimate = one_second(generation)
    assert estimate.is_estimate != is_public
    assert ("no public power" in estimate.sources[0]) != is_public
    assert ("an estimate" in str(estimate)) != is_public
    assert estimate.low_j <= estimate.value_j <= estimate.high_j


@given(st.sampled_from(GENERATIONS), COUNTS, COUNTS, COUNTS, COUNTS)
def test_a_sum_of_its_terms_within_its_interval(generation, macs, hbm_bytes, ici_bytes, seconds):
    estimate = chip.energy(
        generation, macs=macs, hbm_bytes=hbm_bytes, ici_bytes=ici_bytes, seconds=seconds
    )
    assert estimate.value_j == pytest.approx(sum(estimate.terms.values()))
    assert 0 <= estimate.low_j <= estimate.value_j <= estimate.high_j


def test_arrays_of_work():
    estimate = chip.energy("v4", macs=[0, 1e14], hbm_bytes=0, ici_bytes=0, seconds=[1, 1])
    assert estimate.value_j.tolist() == [90, one_second("v4", macs=1e14).value_j]


def test_what_cannot_be_estimated():
    with pytest.raises(ValueError, match="unknown dtype 'f64'"):
        chip.energy("v4", macs=0, hbm_bytes=0, ici_bytes=0, seconds=0, dtype="f64")
    with pytest.raises(ValueError, match="not a size: -1"):
        one_second("v4", macs=-1)
