"""How long one token of a batch of requests takes (TPOT) on one engine.

A step of the engine generates one token for every request. In the closed loop a request that ends
is followed by another one, whose prompt is read in chunks beside the steps of the others: of
`requests` that generate O tokens each, a request waits for (requests - 1) / O prompts in a step on
the mean (chunked prefill: Agrawal et al., arXiv 2308.16369).
"""

from dataclasses import dataclass

import numpy as np

from tpuctl.perfmodel.chip.numeric import Figure, figure, maximum, minimum
from tpuctl.perfmodel.workload.serving.forward_pass import (
    PassTokens,
    PassWork,
    attended_tokens,
    pass_terms,
    pass_work,
)
from tpuctl.perfmodel.workload.serving.prefill import prompt_terms, prompt_work
from tpuctl.perfmodel.workload.serving.serving_constants import (
    KnownFactors,
    ServingConstants,
    estimate,
    known_factors,
    serving_constants,
)
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate

BATCH_TOKENS = 8192
"""Prompt tokens of a step of all ranks, as most recipes set it."""
READERS = 3.0
"""How fast the ranks that read prompts in one step become all of them as the budget is used up:
public rows of one engine with 4 and 8 ranks."""


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """A step of decoding, a prompt that is read beside it, and how many prompts a step has."""

    decode: PassWork
    prompt: PassWork
    prompts: Figure
    ranks: Figure
    load: Figure
    """Share of a step's budget of prompt tokens that is used, on the mean."""
    requests: Figure


def decode_step(hardware: SliceHardware, model: Transformer, run: ServingRun) -> WorkloadEstimate:
    """Seconds a token of `run.requests` requests in flight, all at once."""
    factors = known_factors(hardware, model, run.engine)
    terms, hidden = step_terms(decode_work(hardware, model, run), serving_constants(), factors)
    return estimate(factors, terms, hidden)


def decode_work(hardware: SliceHardware, model: Transformer, run: ServingRun) -> DecodeWork:
    """The work of one step on the device that has the most of it."""
    ways = run.parallelism
    ranks, expert = figure(ways.batch_ways), figure(ways.expert)
    # Every stage of a pipeline has a part of the requests; a token goes through all stages.
    stages = figure(ways.pipeline * ways.dcn_pipeline)
    sequences = maximum(figure(run.requests) / ranks / stages, 1.0)
    length = figure(run.mean_length)
    through = PassTokens(
        tokens=sequences,
        sequences=sequences,
        length=length,
        attended=attended_tokens(model, length),
        ranks=expert,
    )
    return DecodeWork(
        decode=pass_work(hardware, model, run, through),
        prompt=prompt_work(hardware, model, run, expert),
        prompts=_prompts(run) / stages,
        ranks=ranks,
        load=_prompts(run) * figure(run.prompt_tokens) / BATCH_TOKENS,
        requests=figure(run.requests),
    )


def step_terms(
    work: DecodeWork, constants: ServingConstants, factors: KnownFactors
) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """Seconds of the terms that add up, and of what runs beside them."""
    parts = pass_terms(work.decode, constants)
    prompt = prompt_terms(work.prompt, constants, factors)
    weights, compute = parts["weights"], parts["compute"]
    terms = {
        "weights": weights,
        "compute": maximum(compute - weights, 0.0 * weights),
        "cache": parts["cache"],
        "collectives": parts["collectives"] * factors.overhead,
        "layers": parts["layers"] * factors.overhead,
        "step": (constants.step_s + constants.request_s * work.requests) * factors.overhead,
    }
    scaled = {name: term * factors.decode for name, term in terms.items()}
    # The step reads the weights anyway, and its layers are gone through once.
    read = prompt["compute"] + prompt["cache"] + prompt["collectives"]
    scaled["prefill"] = work.prompts / ranks_that_read(work, factors.lockstep) * read
    return scaled, {"computed beside": minimum(compute, weights) * factors.decode}


def ranks_that_read(work: DecodeWork, lockstep: Figure) -> Figure:
    """Ranks that read prompts in one step, where one that reads keeps the others waiting."""
    share = maximum(1 - np.exp(-READERS * work.load), 1 / work.ranks)
    return work.ranks * share**lockstep


def _prompts(run: ServingRun) -> Figure:
    if run.prefills_per_step is not None:
        return figure(run.prefills_per_step)
    others = maximum(figure(run.requests) - 1.0, 0.0 * figure(run.requests))
    return others / figure(run.output_tokens)
