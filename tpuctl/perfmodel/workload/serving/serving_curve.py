"""The closed loop of a serving engine, and its curve of latency over throughput.

`requests` clients wait for an answer and ask again at once. By Little's law the engine answers
requests / (time to the first token + time of the other tokens) a second.
"""

from dataclasses import dataclass, replace

import numpy as np

from tpuctl.perfmodel.chip.numeric import Figure, figure
from tpuctl.perfmodel.workload.serving.decode_step import decode_step
from tpuctl.perfmodel.workload.serving.prefill import prefill
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate

KNEE_SHARE = 0.5
"""At the knee, one per cent more requests give half a per cent more tokens."""
TOKENS_OF_PRICE = 1e6


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """What clients of one engine see; modelled. Throughputs are of all requests together."""

    requests: Figure
    token: WorkloadEstimate
    first_token: WorkloadEstimate
    request_s: Figure
    """From the question to the last token."""
    output_tokens_per_s: Figure
    low_tokens_per_s: Figure
    high_tokens_per_s: Figure
    requests_per_s: Figure


@dataclass(frozen=True, slots=True)
class ServingCurve:
    """A closed loop at each number of requests, up to the most that fit.

    `knee` is the place in the arrays where more requests begin to cost more latency than they give
    throughput, `largest` the number of requests that fit; None where not even one does.
    """

    loop: ClosedLoop
    knee: int | None
    largest: int | None


def closed_loop(hardware: SliceHardware, model: Transformer, run: ServingRun) -> ClosedLoop:
    """The latencies and throughputs of `run.requests` clients; arrays broadcast."""
    token, first = decode_step(hardware, model, run), prefill(hardware, model, run)
    requests, output = figure(run.requests), figure(run.output_tokens)
    later = output - 1.0

    def per_s(first_s: Figure, token_s: Figure) -> Figure:
        return requests / (first_s + later * token_s)

    answers = per_s(first.value_s, token.value_s)
    return ClosedLoop(
        requests=requests,
        token=token,
        first_token=first,
        request_s=first.value_s + later * token.value_s,
        output_tokens_per_s=answers * output,
        low_tokens_per_s=per_s(first.high_s, token.high_s) * output,
        high_tokens_per_s=per_s(first.low_s, token.low_s) * output,
        requests_per_s=answers,
    )


def serving_curve(
    hardware: SliceHardware, model: Transformer, run: ServingRun, largest: int | None
) -> ServingCurve:
    """The closed loop at powers of two of requests, and at the largest number that fits.

    `largest` is the most requests whose caches fit (of device_memory); None where no one fits.
    `run.requests` is not looked at.
    """
    requests = request_counts(largest or 1)
    loop = closed_loop(hardware, model, replace(run, requests=requests))
    return ServingCurve(loop, knee_of(loop) if largest else None, largest)


def request_counts(largest: int) -> np.ndarray:
    """1, 2, 4 and so on, and at last the largest."""
    powers = 2.0 ** np.arange(int(np.log2(largest)) + 1)
    return np.unique(np.append(powers, float(largest)))


def knee_of(loop: ClosedLoop) -> int:
    """The last place up to which more requests still give their share of throughput."""
    counts = np.log(np.atleast_1d(loop.requests))
    rates = np.log(np.atleast_1d(loop.output_tokens_per_s))
    slopes = np.diff(rates) / np.diff(counts)
    below = np.flatnonzero(slopes < KNEE_SHARE)
    return int(below[0]) if below.size else len(counts) - 1


def requests_at_rate(loop: ClosedLoop, requests_per_s: float) -> float | None:
    """Requests in flight where so many arrive a second; None where the engine cannot keep up.

    `loop` is of rising numbers of requests. As many are in flight as a closed loop needs to answer
    at that rate (Little, Operations Research 9(3), 1961); bursts have more.
    """
    rates = np.atleast_1d(loop.requests_per_s)
    if requests_per_s > rates[-1]:
        return None
    counts = np.atleast_1d(loop.requests)
    # Below one request in flight the engine is idle for a part of the time.
    return float(np.interp(requests_per_s, np.append(0.0, rates), np.append(0.0, counts)))


def usd_per_million_tokens(output_tokens_per_s: Figure, usd_per_hour: float) -> Figure:
    """What a million generated tokens cost on an engine that is never idle."""
    return usd_per_hour / 3600 / output_tokens_per_s * TOKENS_OF_PRICE


def most_requests(fits: np.ndarray, requests: np.ndarray) -> int | None:
    """The largest of some numbers of requests that fit."""
    fitting = requests[fits]
    return int(fitting.max()) if fitting.size else None
