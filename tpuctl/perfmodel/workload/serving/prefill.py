"""How long a transformer reads a prompt: seconds until its first token."""

from tpuctl.perfmodel.chip.numeric import Figure, figure, maximum
from tpuctl.perfmodel.workload.serving.forward_pass import (
    PassTokens,
    PassWork,
    attended_tokens,
    pass_terms,
    pass_work,
)
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


def prefill(hardware: SliceHardware, model: Transformer, run: ServingRun) -> WorkloadEstimate:
    """Seconds until the first token of one prompt on an engine that does nothing else.

    One rank of the requests reads it: `data` does not make it faster, and `expert` spreads its
    experts only. `cached_prompt_tokens` of it are not read again.
    """
    factors = known_factors(hardware, model, run.engine)
    work = prompt_work(hardware, model, run, figure(1.0))
    terms = prompt_terms(work, serving_constants(), factors)
    return estimate(factors, terms, {})


def prompt_work(
    hardware: SliceHardware, model: Transformer, run: ServingRun, ranks: Figure
) -> PassWork:
    """The work of reading one prompt on each of so many ranks together."""
    cached, sequence_ways = figure(run.cached_prompt_tokens), figure(run.parallelism.sequence)
    tokens = maximum(figure(run.prompt_tokens) - cached, 1.0)
    through = PassTokens(
        tokens=tokens / sequence_ways,
        sequences=figure(1.0),
        length=cached + tokens,
        attended=attended_tokens(model, cached + tokens / 2),
        ranks=ranks,
    )
    return pass_work(hardware, model, run, through)


def prompt_terms(
    work: PassWork, constants: ServingConstants, factors: KnownFactors
) -> dict[str, Figure]:
    """Seconds of the terms that add up; weights that are read longer than computed with count."""
    parts = pass_terms(work, constants)
    reading, computing = factors.decode, factors.decode * factors.prompt
    compute = parts["compute"] * computing
    weights = parts["weights"] * reading
    return {
        "compute": compute,
        "weights": maximum(weights - compute, 0.0 * compute),
        "cache": parts["cache"] * reading,
        "collectives": parts["collectives"] * computing,
        "layers": parts["layers"] * reading * factors.overhead,
        "step": constants.step_s * reading * factors.overhead + 0.0 * compute,
    }
