"""The closed loop of a serving engine, and its curve of latency over throughput.

`requests` clients wait for an answer and ask again at once. By Little's law the engine answers
requests / (time to the first token + time of the other tokens) a second.
"""

from dataclasses import dataclass

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


def closed_loop(hardware: SliceHardware, model: Transformer, run: ServingRun) -> ClosedLoop:
    """The latencies and throughputs of `run.requests` clients; arrays broadcast."""
    return loop_of(run, decode_step(hardware, model, run), prefill(hardware, model, run))


def loop_of(run: ServingRun, token: WorkloadEstimate, first: WorkloadEstimate) -> ClosedLoop:
    """The loop whose tokens and first tokens take as long as these."""
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


def knee_of(loop: ClosedLoop) -> int:
    """The last place up to which more requests still give their share of throughput."""
    counts = np.log(np.atleast_1d(loop.requests))
    rates = np.log(np.atleast_1d(loop.output_tokens_per_s))
    slopes = np.diff(rates) / np.diff(counts)
    below = np.flatnonzero(slopes < KNEE_SHARE)
    return int(below[0]) if below.size else len(counts) - 1


def usd_per_million_tokens(output_tokens_per_s: Figure, usd_per_hour: float) -> Figure:
    """What a million generated tokens cost on an engine that is never idle."""
    return usd_per_hour / 3600 / output_tokens_per_s * TOKENS_OF_PRICE
