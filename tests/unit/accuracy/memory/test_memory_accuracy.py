"""The memory model's constants are what the fitted rows tell, and it is as good as was asked."""

import json

import pytest

from tpuctl.perfmodel.workload.workload_estimate import MemoryFit
from unit.accuracy.accuracy_scores import score
from unit.accuracy.memory import peak_fit
from unit.accuracy.memory.engine_rows import engine_figures
from unit.accuracy.memory.memory_section import GOAL, covered, errors, said
from unit.accuracy.memory.peak_rows import peak_rows, peaks
from unit.accuracy.published_rows import USES


def test_the_constants_are_what_the_fitted_rows_tell():
    made = json.loads(peak_fit.text())
    kept = json.loads(peak_fit.CONSTANTS.read_text(encoding="utf-8"))

    assert made == pytest.approx(kept, rel=5e-3), (
        "stale: PYTHONPATH=tests python -m unit.accuracy.memory.peak_fit"
    )


@pytest.mark.parametrize("use", ["development", "held_out"])
def test_peaks_that_are_not_fitted_are_as_near_as_was_asked(use):
    found = score(*errors(peaks(use)))

    assert found is not None
    assert found.median <= GOAL[0]
    assert found.p90 <= GOAL[1]


def test_no_run_that_did_not_fit_is_said_to_fit():
    assert not said(MemoryFit.FITS, fits=False)


def test_no_run_that_ran_is_said_not_to_fit():
    assert not said(MemoryFit.DOES_NOT_FIT, fits=True)


def test_most_peaks_are_in_their_interval():
    assert covered(peaks("held_out")) >= 80


def test_every_row_has_one_use_and_a_source():
    names = [row.name for row in peak_rows()]
    assert len(set(names)) == len(names)
    assert not [row.name for row in peak_rows() if row.use not in USES or not row.source]
    assert not [row.name for row in peaks("fitted") if row.model.layers < 30], "of whole models"


def test_weights_and_cache_of_engines_are_as_they_log_them():
    off = {
        (figure.name, figure.what): round(figure.error_percent, 1)
        for figure in engine_figures()
        if abs(figure.error_percent) > (1 if figure.what == "cache of a token" else 5)
    }
    assert not off
