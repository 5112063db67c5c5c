"""The interval and the sources of a modelled time of serving: by what is known of its like."""

from collections.abc import Mapping
from functools import cache, reduce
from operator import add
from typing import Any

import numpy as np

from tpuctl.catalog.public_models import public_models
from tpuctl.perfmodel.chip.numeric import Figure, broadcast_terms
from tpuctl.perfmodel.workload.forward_pass import constants_document
from tpuctl.perfmodel.workload.known_models import transformer_of
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate


def estimate(
    hardware: SliceHardware,
    model: Transformer,
    run: ServingRun,
    terms: Mapping[str, Figure],
    hidden: Mapping[str, Figure],
) -> WorkloadEstimate:
    """The sum of the terms, times what is known of the model, the generation and the engine."""
    factors = known_factors(hardware, model, run)
    factor = float(np.prod(list(factors.values())))
    total = reduce(add, terms.values())
    scaled = {name: term * factor for name, term in terms.items()}
    value = total * factor
    spread = constants_document()["spread"]["known" if "model" in factors else "unknown"]
    return WorkloadEstimate(
        value_s=value,
        low_s=value * spread["low"],
        high_s=value * spread["high"],
        terms=broadcast_terms(scaled, value),
        hidden=broadcast_terms({name: term * factor for name, term in hidden.items()}, value),
        bound=_longest(scaled, value),
        sources=_sources(factors),
    )


def known_factors(hardware: SliceHardware, model: Transformer, run: ServingRun) -> dict[str, float]:
    """What rows of the same generation, engine and model took over the pooled formula."""
    factors = constants_document()["factors"]
    asked = {
        "generation": hardware.generation,
        "engine": run.engine,
        "model": _names().get(model, ""),
    }
    return {
        kind: float(factors[kind][name]) for kind, name in asked.items() if name in factors[kind]
    }


@cache
def _names() -> Mapping[Transformer, str]:
    return {transformer_of(model.shape): model.name for model in public_models()}


def _longest(terms: Mapping[str, Figure], like: Figure) -> Any:
    names = list(terms)
    if isinstance(like, float):
        return max(names, key=lambda name: terms[name])
    stacked = np.stack([np.broadcast_to(terms[name], like.shape) for name in names])
    return np.array(names)[np.argmax(stacked, axis=0)]


def _sources(factors: Mapping[str, float]) -> tuple[str, ...]:
    pooled = "constants of serving: fitted to public rows of all models (docs/accuracy.md)"
    return (
        pooled,
        *(
            f"{kind}: {'' if kind in factors else 'no '}public rows of this one"
            for kind in ("generation", "engine", "model")
        ),
    )
