"""Advice on a planned run, each piece with its source: batch, saves, padding, the torus."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from tpuctl import catalog
from tpuctl.byte_size import count_text, size_text
from tpuctl.models.planning.amount import amount_text, percent_text, three_digits
from tpuctl.operations.planning import scaling_rules
from tpuctl.operations.planning.mesh_choices import INSIDE
from tpuctl.operations.planning.planned_slice import PlannedSlice, PlannedStep
from tpuctl.operations.planning.run_cost import DAY_S
from tpuctl.operations.planning.training_plan import TrainingPlan
from tpuctl.perfmodel.chip.torus import Axis
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware
from tpuctl.perfmodel.workload.transformer import Transformer, count_parameters

INTERVALS = (
    "Young 1974, Communications of the ACM 17(9), 530-531; "
    "Daly 2006, Future Generation Computer Systems 22(3), 303-312"
)
TILING = "the tile of the matrix unit (chip model, docs/accuracy.md)"
RINGS = "the rings of the torus (chip model; scaling-book, chapter 3)"
WASTE = 0.02
"""A product that pads less of itself is not worth a word."""
LEAST_RATIO = 1.5
"""Batches nearer to each other than this need no other learning rate."""


class AdviceKind(StrEnum):
    """What a piece of advice is about."""

    TOKENS = "tokens"
    BATCH = "batch"
    LEARNING_RATE = "learning-rate"
    CHECKPOINT = "checkpoint"
    PADDING = "padding"
    TORUS = "torus"


@dataclass(frozen=True, slots=True)
class PlanAdvice:
    """A sentence about a planned run, and where its rule comes from."""

    kind: AdviceKind
    text: str
    source: str


def training_advice(plan: TrainingPlan) -> list[PlanAdvice]:
    """The advice on the chosen row of a plan."""
    row = plan.chosen
    if row.step is None:
        return []
    return [
        *_tokens_advice(plan),
        *_batch_advice(plan, row),
        *_rate_advice(plan, row),
        *_save_advice(row, row.step),
        *_padding_advice(plan.model, row, row.step),
        *_torus_advice(row, row.step),
    ]


def _tokens_advice(plan: TrainingPlan) -> Iterator[PlanAdvice]:
    parameters = count_parameters(plan.model).active
    best = scaling_rules.TOKENS_A_PARAMETER * parameters
    share = plan.spec.tokens / best
    if 0.5 < share < 2:  # noqa: PLR2004 (a factor of two, either way, is about the same loss)
        return
    side = "more" if share > 1 else "fewer"
    yield PlanAdvice(
        AdviceKind.TOKENS,
        f"{amount_text(plan.spec.tokens)} tokens are "
        f"{three_digits(plan.spec.tokens / parameters)} a parameter, {side} than "
        f"the 20 of least loss for the operations ({amount_text(best)} tokens)",
        scaling_rules.HOFFMANN,
    )


def _batch_advice(plan: TrainingPlan, row: PlannedSlice) -> Iterator[PlanAdvice]:
    """The batch beside the critical one, and beside the least that computing bounds."""
    batch_tokens = row.batch_sequences * plan.spec.sequence_tokens
    loss = scaling_rules.expected_loss(count_parameters(plan.model).active, plan.spec.tokens)
    critical = scaling_rules.critical_batch_tokens(loss)
    verdict = (
        "a larger one still saves steps"
        if batch_tokens < critical
        else "a larger one saves few steps"
    )
    yield PlanAdvice(
        AdviceKind.BATCH,
        f"a batch of {amount_text(batch_tokens)} tokens; the critical batch at the expected loss "
        f"of {loss:.2f} is about {amount_text(critical)}: {verdict}",
        scaling_rules.KAPLAN,
    )


def _rate_advice(plan: TrainingPlan, row: PlannedSlice) -> Iterator[PlanAdvice]:
    operations = 6.0 * count_parameters(plan.model).active * plan.spec.tokens
    best_tokens = scaling_rules.best_batch_tokens(operations)
    rate = scaling_rules.best_learning_rate(operations)
    batch_tokens = row.batch_sequences * plan.spec.sequence_tokens
    scaled = rate * math.sqrt(batch_tokens / best_tokens)
    yield PlanAdvice(
        AdviceKind.LEARNING_RATE,
        f"begin the search for Adam's peak learning rate at {scaled:.2g}: {rate:.2g} at a batch "
        f"of {amount_text(best_tokens)} tokens, times the root of the ratio of the batches",
        f"{scaling_rules.DEEPSEEK}; {scaling_rules.MALLADI}",
    )
    wanted = row.least_compute_bound_batch
    if wanted and wanted >= LEAST_RATIO * row.batch_sequences:
        ratio = wanted / row.batch_sequences
        yield PlanAdvice(
            AdviceKind.LEARNING_RATE,
            f"{row.where.kind.name} computes most of the time from {wanted} sequences a batch on, "
            f"{ratio:.3g} times this one: multiply the learning rate by {math.sqrt(ratio):.3g} "
            f"with Adam, by {ratio:.3g} with SGD, and keep the warm-up's tokens",
            f"{scaling_rules.MALLADI}; {scaling_rules.GOYAL}",
        )


def _save_advice(row: PlannedSlice, step: PlannedStep) -> Iterator[PlanAdvice]:
    if row.cost is None or row.where.spot is None:
        return
    spot = row.cost.spot
    steps = max(1, round(spot.save_every_s / step.step_s))
    day_bytes = spot.save_bytes * DAY_S / spot.save_every_s
    yield PlanAdvice(
        AdviceKind.CHECKPOINT,
        f"on spot, save every {count_text(steps, 'step')} "
        f"({three_digits(spot.save_every_s / 60)} min): a save takes {three_digits(spot.save_s)} "
        f"s and writes {size_text(spot.save_bytes)}, {size_text(day_bytes)} a day; "
        f"{percent_text(spot.lost_share)} of the time is lost to saves and "
        f"{three_digits(spot.preemptions)} preemptions; checkpoint advise says the same of a job "
        "that ran",
        INTERVALS,
    )


def _padding_advice(
    model: Transformer, row: PlannedSlice, step: PlannedStep
) -> Iterator[PlanAdvice]:
    """The sides of the products that are not whole tiles, shape by shape."""
    side = catalog.generation(row.where.kind.generation).chip.mxu_side
    for name, length, ways in _product_sides(model, step):
        cut = length / ways
        padded = math.ceil(cut / side) * side
        if 1 - cut / padded > WASTE:
            apart = f" over {ways} devices" if ways > 1 else ""
            yield PlanAdvice(
                AdviceKind.PADDING,
                f"{name} {length}{apart} is padded from {cut:g} to {padded} by tiles of {side}: "
                f"{100 * (1 - cut / padded):.2g} % of its products is wasted; "
                f"{_whole_sides(length, ways, side)} would waste nothing",
                TILING,
            )


def _whole_sides(length: int, ways: int, side: int) -> str:
    tile = side * ways
    below, above = length // tile * tile, -(-length // tile) * tile
    return f"{below} or {above}" if below else str(above)


def _product_sides(model: Transformer, step: PlannedStep) -> Iterator[tuple[str, int, int]]:
    """Name, length and in how many parts the sides of the products are cut."""
    tensor = step.mesh.get("tensor", 1)
    yield "hidden", model.hidden, 1
    if model.attention.latent is None:
        yield "head_dim (in attention)", model.head_dim, 1
        yield "heads x head_dim", model.heads * model.head_dim, tensor
    if model.dense_layers:
        yield "mlp_hidden", model.mlp_hidden, tensor
    if model.experts:
        yield "experts.hidden", model.experts.hidden, tensor
    yield "vocab", model.vocab, tensor


def _torus_advice(row: PlannedSlice, step: PlannedStep) -> Iterator[PlanAdvice]:
    """The kinds of parallelism whose collectives have one link where a ring has two."""
    hardware = slice_hardware(row.where.kind.generation, row.where.kind.topology)
    axes = [axis for axis in hardware.axes if axis.length > 1]
    rings = [axis for axis in axes if axis.is_ring]
    open_kinds = [
        f"{kind}={step.mesh[kind]}"
        for kind in INSIDE
        if step.mesh.get(kind, 1) > hardware.devices_per_chip
        and not _fills_rings(step.mesh[kind], rings, hardware.devices_per_chip)
    ]
    if not open_kinds:
        return
    joined = ", ".join(open_kinds)
    if not rings:
        yield PlanAdvice(
            AdviceKind.TORUS,
            f"no axis of {hardware.topology} is a ring: the collectives of {joined} have one link "
            f"an axis in place of two; {_ring_text(row)}",
            RINGS,
        )
        return
    yield PlanAdvice(
        AdviceKind.TORUS,
        f"{joined} fills no whole ring of {hardware.topology}: its collectives have one link an "
        "axis in place of two; "
        f"whole rings are {', '.join(map(str, sorted(_ring_sizes(rings))))}",
        RINGS,
    )


def _ring_sizes(rings: list[Axis]) -> set[int]:
    """The products of the lengths of any of the rings."""
    return {
        math.prod(axis.length for axis in chosen)
        for number in range(1, len(rings) + 1)
        for chosen in combinations(rings, number)
    }


def _fills_rings(ways: int, rings: list[Axis], devices_per_chip: int) -> bool:
    sizes = _ring_sizes(rings)
    return bool(sizes & {ways, ways // devices_per_chip})


def _ring_text(row: PlannedSlice) -> str:
    length = catalog.generation(row.where.kind.generation).ring_length
    if length is None:
        return "slices of whole cubes of 4x4x4 have rings"
    return f"slices with an axis of {length} have rings"
