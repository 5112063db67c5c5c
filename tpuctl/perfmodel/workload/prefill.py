"""How long a transformer reads a prompt: seconds until its first token."""

from tpuctl.perfmodel.chip.numeric import Figure, figure, maximum
from tpuctl.perfmodel.workload.forward_pass import (
    PassWork,
    ServingConstants,
    attended,
    pass_terms,
    serving_constants,
)
from tpuctl.perfmodel.workload.serving_estimate import estimate
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate


def prefill(hardware: SliceHardware, model: Transformer, run: ServingRun) -> WorkloadEstimate:
    """Seconds until the first token of one prompt on an engine that does nothing else.

    One rank of the requests reads it: `data` and `expert` do not make it faster, but `expert`
    spreads its experts. `cached_prompt_tokens` of it are not read again.
    """
    constants = serving_constants()
    terms = prompt_terms(hardware, model, run, constants, figure(1.0))
    longer = maximum(terms["weights"], terms["compute"])
    shown = {
        "compute": longer,
        "cache": terms["cache"],
        "collectives": terms["collectives"],
        "layers": terms["layers"],
        "step": figure(constants.step_s),
    }
    hidden = {"weights": terms["weights"]}
    return estimate(hardware, model, run, shown, hidden)


def prompt_terms(
    hardware: SliceHardware,
    model: Transformer,
    run: ServingRun,
    constants: ServingConstants,
    ranks: Figure,
) -> dict[str, Figure]:
    """Seconds of the terms of reading one prompt on each of so many ranks at once."""
    cached = figure(run.cached_prompt_tokens)
    tokens = maximum(figure(run.prompt_tokens) - cached, 1.0)
    middle = cached + tokens / 2
    work = PassWork(
        tokens=tokens / figure(run.parallelism.sequence),
        sequences=figure(1.0),
        length=cached + tokens,
        attended_tokens=tokens
        * attended(model.attention, model.layers, middle)
        / figure(run.parallelism.sequence),
        ranks=ranks,
    )
    return pass_terms(hardware, model, run, work, constants)
