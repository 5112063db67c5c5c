"""What docs/accuracy.md says of serving is so: rows, constants, intervals and scores."""

import json
from collections import Counter

import numpy as np
import pytest

from unit.accuracy.accuracy_scores import score
from unit.accuracy.published_rows import USES
from unit.accuracy.serving import serving_fit, serving_section
from unit.accuracy.serving.serving_fit import FILE, SCORES, document, fit, least_squares, of_use
from unit.accuracy.serving.serving_rows import METRICS, prompts_beside, rows, seconds_of

STALE = "stale: PYTHONPATH=tests python -m unit.accuracy.serving.serving_fit"
BARS = {
    # left out: median and 90th percentile of held-out rows, percent in the interval
    "known": (10, 25, 80),
    "other model": (25, 60, 78),
}


def test_every_row_has_a_use_a_metric_and_a_source() -> None:
    wrong = [
        row.label
        for row in rows()
        if row.use not in USES
        or row.metric not in METRICS
        or len(row.source) < 20
        or not row.measured_s > 0
        or row.run.requests > row.clients
    ]
    assert not wrong
    assert min(Counter(row.use for row in rows()).values()) > 30


def test_devices_of_a_row_are_those_of_its_slice() -> None:
    wrong = [row.label for row in rows() if row.run.parallelism.devices > row.hardware.devices]
    assert not wrong


def test_no_run_is_fitted_and_held_out() -> None:
    of = {
        use: {
            (serving_fit.cell_of(row), row.run.output_tokens, row.run.weight_bytes)
            for row in of_use(use)
        }
        for use in USES
    }
    twice = of["fitted"] & of["held_out"]

    # One run of a recipe was published again with a kernel of its own, one with larger blocks.
    assert {cell.split()[0] for cell, *_ in twice} <= {"qwen3-32b", "llama-3-8b"}


def test_the_constants_are_what_the_fitted_rows_tell() -> None:
    left_out = json.loads(SCORES.read_text(encoding="utf-8"))
    made = json.loads(document(fit(of_use("fitted")), left_out))
    kept = json.loads(FILE.read_text(encoding="utf-8"))

    assert made.keys() == kept.keys(), STALE
    for part in ("constants", "spread"):
        assert made[part] == {
            name: pytest.approx(value, rel=0.03) for name, value in kept[part].items()
        }, STALE
    for kind, factors in made["factors"].items():
        assert factors == pytest.approx(kept["factors"][kind], rel=0.03, abs=0.03), STALE


def test_what_is_left_out_is_predicted_of_every_row() -> None:
    left_out = json.loads(SCORES.read_text(encoding="utf-8"))

    assert {kind: len(values) for kind, values in left_out.items()} == {
        kind: len(rows()) for kind in serving_section.NAMES
    }, STALE


@pytest.mark.parametrize("kind", BARS)
def test_held_out_rows_are_as_near_as_the_page_says(kind: str) -> None:
    chosen = serving_section.of("held_out") & serving_fit.is_scored(kind)
    found = score(serving_section.left_out()[kind][chosen], serving_section.measured()[chosen])
    median, p90, covered = BARS[kind]
    assert found is not None

    assert found.median <= median
    assert found.p90 <= p90
    assert 100 * np.mean(serving_section.inside(kind)[chosen]) >= covered


def test_the_model_is_nearer_than_its_baselines() -> None:
    chosen = serving_section.of("held_out")
    for kind in BARS:
        here = chosen & serving_fit.is_scored(kind)
        ours, share, roofline = (
            np.median(np.abs(predicted[here] / serving_section.measured()[here] - 1))
            for predicted in (
                serving_section.left_out()[kind],
                serving_section.constant_share(kind),
                serving_section.roofline(),
            )
        )
        assert ours < share < roofline


def test_intervals_are_no_wider_than_asked() -> None:
    spread = json.loads(FILE.read_text(encoding="utf-8"))["spread"]
    widths = {kind: ends["high"] / ends["low"] for kind, ends in spread.items()}

    assert widths["known"] < widths["other model"] < widths["elsewhere"] < 2.3
    assert widths["other model"] <= serving_section.WIDEST


def test_a_throughput_is_the_time_of_all_waves() -> None:
    row = next(row for row in rows() if row.metric == "output_tok_s_per_chip")
    output = row.run.output_tokens
    waves = -(-row.prompts // row.run.requests)

    seconds = seconds_of(row, token_s=0.01, last_token_s=0.01, first_s=0.01)
    assert seconds == pytest.approx(waves * output * 0.01 / (row.prompts * output))


@pytest.mark.parametrize(
    ("waves", "share"),
    [
        (1, 0.5),  # all come at once: a request waits for those behind it
        (2, 0.75),
        (2.5, (0.5 + 1 + 0.5 * 0.25) / 2.5),  # the last half of a wave sees the half of itself
    ],
)
def test_a_request_waits_for_the_prompts_of_its_wave_and_of_later_ones(
    waves: float, share: float
) -> None:
    run = {"requests": 101, "prompts": 101 * waves, "output_tokens": 10, "metric": "mean_tpot_ms"}

    assert prompts_beside(run, 101) == pytest.approx(share * 10)


def test_least_squares_finds_the_lowest_point_of_a_valley() -> None:
    lowest = least_squares(
        lambda at: np.array([1 - at[0], 10 * (at[1] - at[0] ** 2)]), np.array([-1.0, 1.0]), 200
    )

    assert lowest == pytest.approx([1, 1], abs=1e-3)
