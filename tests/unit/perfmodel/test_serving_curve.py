"""Throughput over concurrency: the knee, the largest number of requests, and what tokens cost."""

from dataclasses import replace

import numpy as np
import pytest

from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.serving.decode_step import decode_step
from tpuctl.perfmodel.workload.serving.prefill import prefill
from tpuctl.perfmodel.workload.serving.serving_curve import (
    closed_loop,
    most_requests,
    request_counts,
    requests_at_rate,
    serving_curve,
    usd_per_million_tokens,
)
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware

HARDWARE = slice_hardware("v6e", "2x4")
MODEL = known_transformer("llama-3-70b")
RUN = ServingRun(64, 1000, 1000, Parallelism(tensor=8), engine="vllm")


def test_a_closed_loop_answers_as_many_requests_as_its_latency_allows() -> None:
    loop = closed_loop(HARDWARE, MODEL, RUN)
    token, first = decode_step(HARDWARE, MODEL, RUN), prefill(HARDWARE, MODEL, RUN)

    assert loop.request_s == pytest.approx(first.value_s + 999 * token.value_s)
    assert loop.output_tokens_per_s == pytest.approx(64 * 1000 / loop.request_s)
    assert loop.requests_per_s == pytest.approx(64 / loop.request_s)
    assert loop.low_tokens_per_s < loop.output_tokens_per_s < loop.high_tokens_per_s


def test_the_curve_goes_to_the_largest_number_that_fits() -> None:
    curve = serving_curve(HARDWARE, MODEL, RUN, largest=100)

    assert curve.loop.requests.tolist() == [1, 2, 4, 8, 16, 32, 64, 100]
    assert np.all(np.diff(curve.loop.token.value_s) > 0)
    assert np.all(np.diff(curve.loop.output_tokens_per_s) > 0)
    assert curve.largest == 100


def test_the_knee_is_where_throughput_stops_to_follow_the_requests() -> None:
    curve = serving_curve(HARDWARE, MODEL, RUN, largest=4096)
    rates, requests = curve.loop.output_tokens_per_s, curve.loop.requests
    assert curve.knee is not None
    slopes = np.diff(np.log(rates)) / np.diff(np.log(requests))

    assert np.all(slopes[: curve.knee] >= 0.5)
    assert slopes[curve.knee] < 0.5


def test_nothing_that_fits_has_no_knee() -> None:
    curve = serving_curve(HARDWARE, MODEL, RUN, largest=None)

    assert (curve.knee, curve.largest) == (None, None)


def test_a_point_of_the_curve_is_the_loop_of_its_requests() -> None:
    curve = serving_curve(HARDWARE, MODEL, RUN, largest=8)
    alone = closed_loop(HARDWARE, MODEL, replace(RUN, requests=4))

    assert curve.loop.output_tokens_per_s[2] == pytest.approx(alone.output_tokens_per_s)


def test_a_million_tokens_at_a_thousand_a_second_cost_a_thousand_seconds() -> None:
    assert usd_per_million_tokens(1000.0, usd_per_hour=36.0) == pytest.approx(10.0)


def test_the_most_requests_that_fit() -> None:
    requests = request_counts(8)

    assert most_requests(requests <= 5, requests) == 4
    assert most_requests(requests < 0, requests) is None


def test_arrivals_hold_as_many_requests_as_answer_at_their_rate() -> None:
    loop = serving_curve(HARDWARE, MODEL, RUN, largest=64).loop

    assert requests_at_rate(loop, float(loop.requests_per_s[3])) == pytest.approx(8)
    assert requests_at_rate(loop, float(loop.requests_per_s[0]) / 2) == pytest.approx(0.5)
    assert requests_at_rate(loop, float(loop.requests_per_s[-1]) * 1.01) is None
