"""Throughput over concurrency: the knee, and what tokens cost."""

from dataclasses import replace

import numpy as np
import pytest

from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.serving.decode_step import decode_step
from tpuctl.perfmodel.workload.serving.prefill import prefill
from tpuctl.perfmodel.workload.serving.serving_curve import (
    closed_loop,
    knee_of,
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


def test_more_requests_wait_longer_and_get_more_tokens_together() -> None:
    loop = closed_loop(HARDWARE, MODEL, replace(RUN, requests=2.0 ** np.arange(8)))

    assert np.all(np.diff(loop.token.value_s) > 0)
    assert np.all(np.diff(loop.output_tokens_per_s) > 0)


def test_the_knee_is_where_throughput_stops_to_follow_the_requests() -> None:
    requests = 2.0 ** np.arange(13)
    loop = closed_loop(HARDWARE, MODEL, replace(RUN, requests=requests))
    slopes = np.diff(np.log(loop.output_tokens_per_s)) / np.diff(np.log(requests))
    knee = knee_of(loop)

    assert np.all(slopes[:knee] >= 0.5)
    assert slopes[knee] < 0.5


def test_a_point_of_the_curve_is_the_loop_of_its_requests() -> None:
    loop = closed_loop(HARDWARE, MODEL, replace(RUN, requests=np.array([1, 2, 4, 8])))
    alone = closed_loop(HARDWARE, MODEL, replace(RUN, requests=4))

    assert loop.output_tokens_per_s[2] == pytest.approx(alone.output_tokens_per_s)


def test_a_million_tokens_at_a_thousand_a_second_cost_a_thousand_seconds() -> None:
    assert usd_per_million_tokens(1000.0, usd_per_hour=36.0) == pytest.approx(10.0)
