"""Constants of serving engines, fitted to public rows, and what is known of one's like.

`decode_constants.json` has the pooled constants, factors of the generations, engines and models
that have public rows, and the spreads. The fit that `docs/accuracy.md` describes writes it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from tpuctl.catalog.public_models import public_models
from tpuctl.perfmodel.chip.numeric import Figure, broadcast_terms
from tpuctl.perfmodel.workload.known_models import transformer_of
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate, longest_term

_FILE = Path(__file__).with_name("decode_constants.json")
KINDS = ("generation", "engine", "model")


@dataclass(frozen=True, slots=True)
class ServingConstants:
    """Pooled constants; an efficiency is a share (0 to 1) of the device's peak.

    `prompt_efficiency` and `prompt_expert_efficiency` are of the MXU's peak, for matrices that all
    tokens and that some tokens go through. The others are seconds of one sequence in one layer, one
    collective, one layer, what experts and linear attention add to a layer, one step of the engine,
    and one request in a step.
    """

    weight_efficiency: Figure
    expert_efficiency: Figure
    cache_efficiency: Figure
    prompt_efficiency: Figure
    prompt_expert_efficiency: Figure
    ici_efficiency: Figure
    attention_s: Figure
    collective_s: Figure
    layer_s: Figure
    expert_layer_s: Figure
    linear_layer_s: Figure
    step_s: Figure
    request_s: Figure


@dataclass(frozen=True, slots=True)
class KnownFactors:
    """What rows of the same generation, engine and model took over the pooled constants.

    `decode` is for all of a step, `overhead` for what is not read or computed, `prompt` for
    prompts.
    `lockstep` says how much of a prompt the ranks that do not read it wait for: 0 none, 1 all.
    `kinds` names those of generation, engine and model that have public rows.
    """

    decode: Figure
    overhead: Figure
    prompt: Figure
    lockstep: Figure
    kinds: tuple[str, ...]


@cache
def serving_constants() -> ServingConstants:
    """The pooled constants."""
    return ServingConstants(**_document()["constants"])


def known_factors(hardware: SliceHardware, model: Transformer, engine: str) -> KnownFactors:
    """The factors of a generation, an engine and a model; 1 for what has no public row."""
    return _factors(hardware.generation, engine.lower(), canonical_name(model))


def known_engines() -> tuple[str, ...]:
    """The serving programs that have public rows."""
    return tuple(sorted(_document()["factors"]["engine"]))


def estimate(
    factors: KnownFactors, terms: Mapping[str, Figure], hidden: Mapping[str, Figure]
) -> WorkloadEstimate:
    """The sum of the terms with the interval that holds for what is known."""
    value = reduce(add, terms.values())
    spread = _document()["spread"][_like(factors.kinds)]
    return WorkloadEstimate(
        value_s=value,
        low_s=value * spread["low"],
        high_s=value * spread["high"],
        terms=broadcast_terms(terms, value),
        hidden=broadcast_terms(hidden, value),
        bound=longest_term(terms, value),
        sources=_sources(factors.kinds),
    )


def canonical_name(model: Transformer) -> str:
    """The first of the public models of a shape; empty for a shape of no public model."""
    return _names().get(model, "")


def _like(kinds: tuple[str, ...]) -> str:
    """Whose spread holds: that of known rows, of other models or engines, or of generations."""
    if "generation" not in kinds:
        return "elsewhere"
    return "known" if len(kinds) == len(KINDS) else "other model"


@cache
def _factors(generation: str, engine: str, model: str) -> KnownFactors:
    known = _document()["factors"]
    asked = dict(zip(KINDS, (generation, engine, model), strict=True))
    decode = [known[kind].get(name, 1.0) for kind, name in asked.items()]
    decode.append(known["pair"].get(f"{engine} {model}", 1.0))
    return KnownFactors(
        decode=float(np.prod(decode)),
        overhead=float(known["overhead"].get(engine, 1.0)),
        prompt=float(known["prompt"].get(engine, 1.0)),
        lockstep=float(known["lockstep"].get(engine, known["lockstep"][""])),
        kinds=tuple(kind for kind, name in asked.items() if name in known[kind]),
    )


@cache
def _names() -> Mapping[Transformer, str]:
    return {transformer_of(model.shape): model.name for model in reversed(public_models())}


def _sources(kinds: tuple[str, ...]) -> tuple[str, ...]:
    return (
        "constants of serving: fitted to public rows of all models (docs/accuracy.md)",
        *(
            f"{kind}: {'public rows' if kind in kinds else 'no public row'} of this one"
            for kind in KINDS
        ),
    )


@cache
def _document() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return document
