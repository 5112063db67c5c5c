"""How long one token of a batch of requests takes (TPOT) on one engine.

A step of the engine generates one token for every request. In the closed loop a request that ends
is followed by another one, whose prompt is read in chunks beside the steps of the others: of
`requests` that generate O tokens each, `requests / O` prompts are read in a step on the mean
(chunked prefill: Agrawal et al., arXiv 2308.16369).
"""

from tpuctl.perfmodel.chip.numeric import Figure, figure, maximum
from tpuctl.perfmodel.workload.forward_pass import (
    PassWork,
    ServingConstants,
    attended,
    pass_terms,
    serving_constants,
)
from tpuctl.perfmodel.workload.prefill import prompt_terms
from tpuctl.perfmodel.workload.serving_estimate import estimate
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate


def decode_step(hardware: SliceHardware, model: Transformer, run: ServingRun) -> WorkloadEstimate:
    """Seconds a token of `run.requests` requests in flight, all at once."""
    terms, hidden = decode_terms(hardware, model, run, serving_constants())
    return estimate(hardware, model, run, terms, hidden)


def decode_terms(
    hardware: SliceHardware, model: Transformer, run: ServingRun, constants: ServingConstants
) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """Seconds of the terms that add up, and of what runs beside them."""
    ways = run.parallelism
    ranks = figure(ways.batch_ways * ways.sequence**0)
    sequences = maximum(figure(run.requests) / ranks, 1.0)
    length = figure(run.mean_length)
    work = PassWork(
        tokens=sequences,
        sequences=sequences,
        length=length,
        attended_tokens=sequences * attended(model.attention, model.layers, length),
        ranks=figure(ways.expert) + 0 * sequences,
    )
    parts = pass_terms(hardware, model, run, work, constants)
    terms = {
        "weights": parts["weights"],
        "compute": maximum(parts["compute"] - parts["weights"], 0.0 * parts["weights"]),
        "cache": parts["cache"],
        "collectives": parts["collectives"],
        "layers": parts["layers"],
        "step": figure(constants.step_s) + constants.request_s * figure(run.requests),
        "prefill": _prefill_s(hardware, model, run, constants),
    }
    return terms, {"compute": parts["compute"]}


def _prefill_s(
    hardware: SliceHardware, model: Transformer, run: ServingRun, constants: ServingConstants
) -> Figure:
    """What reading prompts adds to a step: its weights are read by the step anyway."""
    ways = run.parallelism
    per_step = run.prefills_per_step
    if per_step is None:
        per_step = figure(run.requests) / figure(run.output_tokens)
    parts = prompt_terms(hardware, model, run, constants, figure(ways.expert))
    prompts = figure(per_step) / figure(ways.batch_ways)
    return prompts * (parts["compute"] + parts["cache"] + parts["collectives"])
