"""Which slice answers requests, with an engine that can be reckoned in the head."""

from dataclasses import replace

import numpy as np
import pytest

from tpuctl.errors import PreconditionError, UsageError
from tpuctl.models.money.price_book import PriceBook
from tpuctl.models.planning.plan_spec import ModelChoice, ServePlanSpec, SliceChoice
from tpuctl.operations.planning.planned_slice import Fit, Mark
from tpuctl.operations.planning.serving_plan import ServingModels, plan_serving
from tpuctl.perfmodel.workload.serving.serving_curve import ClosedLoop
from tpuctl.perfmodel.workload.workload_estimate import MemoryEstimate, WorkloadEstimate

GIB = 2**30
SPEC = ServePlanSpec(
    model=ModelChoice("llama-3-8b"),
    prompt_tokens=1024,
    output_tokens=100,
    slices=SliceChoice(generations=("v6e",), zone="us-east5-b"),
)


def memory(hardware, model, run):
    """16 GiB of weights over `tensor`, and half a GiB a request of each `data` way."""
    ways = run.parallelism
    total = 16 * GIB / ways.tensor + GIB / 2 * run.requests / ways.data
    usable = hardware.device.usable_bytes
    return MemoryEstimate(total, total, total, {}, usable, ("simple memory",))


def loop(hardware, model, run):
    """A token takes 10 ms over `tensor`, and 1 ms for each request of a `data` way."""
    ways = run.parallelism
    token = 0.010 / ways.tensor + 0.001 * run.requests / ways.data
    first = np.float64(0.1)
    zero = 0 * token
    estimates = [
        WorkloadEstimate(value, 0.5 * value, 2 * value, {}, {}, "weights", ("simple engine",))
        for value in (token, first + zero)
    ]
    request = first + 99 * token
    rate = run.requests / request
    tokens = 100 * rate
    return ClosedLoop(
        requests=np.asarray(run.requests, float), token=estimates[0], first_token=estimates[1],
        request_s=request, output_tokens_per_s=tokens, low_tokens_per_s=tokens,
        high_tokens_per_s=tokens, requests_per_s=rate,
    )  # fmt: skip


def plan(**changes):
    models = ServingModels(memory=memory, loop=loop)
    found = plan_serving(replace(SPEC, **changes), PriceBook(), 0.0, models)
    return {row.where.kind.name: row for row in found.rows}


def test_each_slice_has_its_curve_up_to_what_fits():
    rows = plan()
    assert list(rows) == ["v6e-1", "v6e-4", "v6e-8", "v6e-16", "v6e-32", "v6e-64"]
    one = rows["v6e-1"]
    # 15.25 GiB are left beside the weights: 30 requests, so 16 of the powers of two.
    assert [point.requests for point in one.curve] == [1, 2, 4, 8, 16]
    last = one.curve[-1]
    assert (last.token_s, last.latency_s) == pytest.approx((0.026, 0.1 + 99 * 0.026))
    assert last.tokens_per_s == pytest.approx(1600 / 2.674)
    assert last.usd_per_million == pytest.approx(2.7 / 3600 / last.tokens_per_s * 1e6)
    assert one.best.is_knee


def test_the_most_within_a_latency_and_the_slices_for_a_rate():
    one = plan(latency_s=2.0, rate=20)["v6e-1"]
    # 8 requests take 1.882 s, 16 take 2.674 s: 4.25 answers a second, five slices for 20.
    assert (one.best.requests, one.engines) == (8, 5)
    assert one.usd_per_hour(is_spot=False) == pytest.approx(5 * 2.7)
    short = plan(latency_s=0.6)
    assert (short["v6e-1"].fit, short["v6e-1"].best) == (Fit.YES, None)
    assert short["v6e-1"].why == "takes at least 1.19 s a request"
    assert short["v6e-4"].mesh["tensor"] == 4


def test_marks():
    rows = plan(rate=1000)
    marks = {name: row.marks for name, row in rows.items() if row.marks}
    assert sum(Mark.CHEAPEST in each for each in marks.values()) == 1
    assert sum(Mark.FASTEST in each for each in marks.values()) == 1
    usd = {name: row.usd_per_hour(is_spot=False) for name, row in rows.items()}
    cheapest = next(name for name, each in marks.items() if Mark.CHEAPEST in each)
    assert usd[cheapest] == min(usd.values())


def test_what_cannot_be_served_says_why():
    alone = SliceChoice(types=("v6e-1",))
    with pytest.raises(UsageError, match="v6e-1: --tensor 8 does not divide its devices"):
        plan(slices=alone, tensor=8)
    with pytest.raises(PreconditionError) as refused:
        plan(slices=SliceChoice(types=("v5litepod-1",)))
    assert str(refused.value) == (
        "llama-3-8b does not fit: v5litepod-1 needs 16.5 GiB of 15.8 GiB a device"
    )
