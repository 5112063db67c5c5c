"""Plan a service: for each slice the latency and throughput of a model, and USD a million tokens.

An engine spans a slice: tensor parallelism inside of it, and the rest of its devices share the
requests (and experts). A point of its curve is a number of requests in flight, each of which is
followed by another one when it ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tpuctl.byte_size import count_text, size_text
from tpuctl.catalog import Price
from tpuctl.errors import PreconditionError, UsageError
from tpuctl.models.money.price_book import PriceBook
from tpuctl.models.planning.mesh_text import Mesh
from tpuctl.models.planning.plan_spec import ServePlanSpec
from tpuctl.operations.planning.compared_slices import ComparedSlice, compared_slices
from tpuctl.operations.planning.mesh_choices import (
    MOST_TENSOR,
    divisors,
    mesh_table,
)
from tpuctl.operations.planning.plan_specs import transformer
from tpuctl.operations.planning.planned_slice import Fit, Mark
from tpuctl.operations.planning.row_marks import SAME_COST
from tpuctl.perfmodel.workload.memory.device_memory import serving_memory
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.serving.decode_step import decode_step
from tpuctl.perfmodel.workload.serving.prefill import prefill
from tpuctl.perfmodel.workload.serving.serving_curve import (
    ClosedLoop,
    closed_loop,
    knee_of,
    loop_of,
    usd_per_million_tokens,
)
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware, slice_hardware
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import MemoryEstimate

if TYPE_CHECKING:
    from tpuctl.perfmodel.workload.program.term_calibration import TermCalibration

REQUESTS = 2 ** np.arange(13, dtype=np.int64)
"""Requests in flight that are tried: 1, 2, 4, ... 4096."""
MOST_CHIPS = 64
"""Larger slices are compared only when they are named: several small ones serve as well."""


LoopModel = Callable[[SliceHardware, Transformer, ServingRun], ClosedLoop]


class ServingModels(NamedTuple):
    """What says how fast an engine answers, and what a device holds."""

    memory: Callable[[SliceHardware, Transformer, ServingRun], MemoryEstimate] = serving_memory
    loop: LoopModel = closed_loop


def calibrated_loop(calibration: TermCalibration) -> LoopModel:
    """The model of an engine whose terms are multiplied by what was measured."""
    from tpuctl.perfmodel.workload.program.term_calibration import calibrate

    def loop(hardware: SliceHardware, model: Transformer, run: ServingRun) -> ClosedLoop:
        token, first = (
            calibrate(hardware, estimate(hardware, model, run), calibration)
            for estimate in (decode_step, prefill)
        )
        return loop_of(run, token, first)

    return loop


@dataclass(frozen=True, slots=True)
class ServingPoint:
    """An engine with so many requests in flight; seconds, and USD for a million output tokens."""

    requests: int
    first_token_s: float
    """Of a prompt that does not wait for others."""
    token_s: float
    token_low_s: float
    token_high_s: float
    latency_s: float
    """From the arrival of a request to its last token."""
    tokens_per_s: float
    requests_per_s: float
    bound: str
    usd_per_million: float | None
    spot_usd_per_million: float | None
    is_knee: bool = False
    """From here on, one per cent more requests give less than half a per cent more tokens."""


@dataclass(frozen=True, slots=True)
class ServedSlice:
    """A type of slice with its best engine, or why there is none."""

    where: ComparedSlice
    fit: Fit
    why: str = ""
    needed_bytes: float | None = None
    usable_bytes: float = 0.0
    mesh: Mesh | None = None
    curve: tuple[ServingPoint, ...] = ()
    best: ServingPoint | None = None
    """The point of most throughput that keeps the latency; without a latency the knee."""
    least_latency_s: float | None = None
    """Of the engine and the number of requests that answer one soonest."""
    engines: int | None = None
    """Slices of this type that answer the rate; None without a rate."""
    sources: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def is_possible(self) -> bool:
        """Whether the model fits, however long a request takes."""
        return self.fit is not Fit.NO

    def usd_per_hour(self, *, is_spot: bool) -> float | None:
        """USD an hour of as many of these slices as are needed."""
        price = self.where.spot if is_spot else self.where.on_demand
        return (
            None if price is None else price.usd_per_hour * self.where.slices * (self.engines or 1)
        )


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """The rows of a plan of a service."""

    spec: ServePlanSpec
    model: Transformer
    rows: tuple[ServedSlice, ...]

    @property
    def chosen(self) -> ServedSlice:
        """The row whose curve is shown: the cheapest, else the first that has one or fits."""
        possible = [row for row in self.rows if row.is_possible]
        served = [row for row in possible if row.best]
        marked = [row for row in served if Mark.CHEAPEST in row.marks]
        return (marked or served or possible)[0]


def plan_serving(
    spec: ServePlanSpec, book: PriceBook, now_s: float, models: ServingModels | None = None
) -> ServingPlan:
    """Plan a service on every slice that was asked for, with the prices of a moment (Unix time).

    Raises UsageError (a name, a way), NotFoundError (no such slice in the zone) and
    PreconditionError for a model that fits nowhere.
    """
    model = transformer(spec.model)
    compared = [
        where
        for where in compared_slices(spec.slices, book, now_s)
        if spec.slices.types or where.chips <= MOST_CHIPS
    ]
    rows = [_served(where, model, spec, models or ServingModels()) for where in compared]
    if not any(row.is_possible for row in rows):
        raise _nowhere_error(spec, rows)
    return ServingPlan(spec, model, tuple(_marked(rows, is_spot=spec.slices.is_spot)))


def _served(
    where: ComparedSlice, model: Transformer, spec: ServePlanSpec, models: ServingModels
) -> ServedSlice:
    """The sharding of most throughput that keeps the latency, and its curve."""
    hardware = slice_hardware(where.kind.generation, where.kind.topology)
    meshes = _meshes(model, hardware.devices, spec.tensor)
    if not meshes:
        why = f"--tensor {spec.tensor} does not divide its devices and the model's heads"
        return ServedSlice(where, Fit.NO, why)
    table = mesh_table(meshes)
    run = ServingRun(
        requests=REQUESTS,
        prompt_tokens=spec.prompt_tokens,
        output_tokens=spec.output_tokens,
        parallelism=table.column(),
        weight_bytes=spec.weight_bits / 8,
        cache_bytes=spec.cache_bits / 8,
    )
    shape = (len(meshes), len(REQUESTS))
    memory = models.memory(hardware, model, run)
    highs = np.broadcast_to(memory.high_bytes, shape)
    fits = (highs <= memory.usable_bytes) & (table.batch_ways[:, None] <= REQUESTS)
    row = ServedSlice(
        where, Fit.NO, needed_bytes=float(highs.min()), usable_bytes=memory.usable_bytes
    )
    if not fits.any():
        needed = f"{size_text(float(highs.min()))} of {size_text(memory.usable_bytes)}"
        return replace(row, why=f"needs {needed} a device")
    loop = models.loop(hardware, model, run)
    latencies = np.broadcast_to(loop.request_s, shape)
    longest_s = float("inf") if spec.latency_s is None else spec.latency_s
    rates = np.where(fits & (latencies <= longest_s), loop.output_tokens_per_s, 0.0)
    row = replace(row, fit=Fit.YES, least_latency_s=float(latencies[fits].min()))
    if not rates.any():
        return replace(row, why=f"takes at least {row.least_latency_s:.3g} s a request")
    at = int(rates.max(axis=1).argmax())
    one = models.loop(
        hardware,
        model,
        replace(run, parallelism=Parallelism(**meshes[at]), requests=REQUESTS[fits[at]]),
    )
    curve = tuple(_points(one, where, knee_of(one)))
    within = [point for point in curve if point.latency_s <= longest_s]
    knee = next(point for point in curve if point.is_knee)
    best = within[-1] if spec.latency_s is not None else knee
    return replace(
        row,
        mesh=meshes[at],
        curve=curve,
        best=best,
        engines=None if spec.rate is None else math.ceil(spec.rate / best.requests_per_s),
        sources=(*one.token.sources, *memory.sources),
    )


def _points(loop: ClosedLoop, where: ComparedSlice, knee: int) -> Iterator[ServingPoint]:
    """The points of one mesh, by rising numbers of requests."""
    shape = loop.requests.shape
    bounds = np.broadcast_to(np.asarray(loop.token.bound), shape)
    figures = [
        np.broadcast_to(figure, shape).tolist()
        for figure in (
            *(loop.first_token.value_s, loop.token.value_s, loop.token.low_s, loop.token.high_s),
            *(loop.request_s, loop.output_tokens_per_s, loop.requests_per_s),
        )
    ]
    for number, (first, token, low, high, latency, tokens, answers) in enumerate(
        zip(*figures, strict=True)
    ):
        rate = tokens * where.slices
        yield ServingPoint(
            requests=int(loop.requests[number]),
            first_token_s=first,
            token_s=token,
            token_low_s=low,
            token_high_s=high,
            latency_s=latency,
            tokens_per_s=rate,
            requests_per_s=answers * where.slices,
            bound=str(bounds[number]),
            usd_per_million=_usd_per_million(where, where.on_demand, rate),
            spot_usd_per_million=_usd_per_million(where, where.spot, rate),
            is_knee=number == knee,
        )


def _usd_per_million(where: ComparedSlice, price: Price | None, rate: float) -> float | None:
    if price is None:
        return None
    return float(usd_per_million_tokens(rate, price.usd_per_hour * where.slices))


def _meshes(model: Transformer, devices: int, tensor: int | None) -> list[Mesh]:
    """Ways of heads, of experts and of requests that fill a slice; experts as many as there are."""
    heads = divisors(gcd(devices, model.heads), MOST_TENSOR)
    found: list[Mesh] = []
    for ways in (each for each in heads if tensor in (None, each)):
        left = devices // ways
        expert = gcd(left, model.experts.count) if model.experts else 1
        found.append({"tensor": ways, "expert": expert, "data": left // expert})
    return found


def _marked(rows: Sequence[ServedSlice], *, is_spot: bool) -> list[ServedSlice]:
    """The cheapest row by USD an hour where a rate is asked for, else by USD a million tokens."""
    served = {number: row for number, row in enumerate(rows) if row.best}
    priced = {
        number: usd
        for number, row in served.items()
        if (usd := served_usd(row, is_spot=is_spot)) is not None
    }
    found = {
        Mark.CHEAPEST: min(priced, key=lambda at: priced[at], default=None),
        Mark.FASTEST: _soonest(served, is_spot=is_spot),
    }
    return [
        replace(row, marks=tuple(mark for mark, at in found.items() if at == number))
        for number, row in enumerate(rows)
    ]


def _soonest(served: Mapping[int, ServedSlice], *, is_spot: bool) -> int | None:
    """The row that answers one request soonest; of rows as soon the one of fewest USD an hour."""
    least_s = min(map(_least_latency_s, served.values()), default=math.inf)
    equal = [at for at, row in served.items() if _least_latency_s(row) <= SAME_COST * least_s]
    return min(
        equal, key=lambda at: served[at].usd_per_hour(is_spot=is_spot) or math.inf, default=None
    )


def _least_latency_s(row: ServedSlice) -> float:
    return float("inf") if row.least_latency_s is None else row.least_latency_s


def served_usd(row: ServedSlice, *, is_spot: bool) -> float | None:
    """What rows are compared by: USD an hour for the rate, else USD a million tokens."""
    if row.best is None:
        return None
    if row.engines is not None:
        return row.usd_per_hour(is_spot=is_spot)
    return row.best.spot_usd_per_million if is_spot else row.best.usd_per_million


def latency_error(plan: ServingPlan) -> PreconditionError | None:
    """The error for a latency that no slice keeps, with the nearest; None where one does."""
    if any(row.best for row in plan.rows):
        return None
    nearest = min(plan.rows, key=_least_latency_s)
    return PreconditionError(
        f"no slice keeps a latency of {plan.spec.latency_s:g} s",
        hint=f"the nearest is {nearest.where.text}, which {nearest.why}",
    )


def _nowhere_error(
    spec: ServePlanSpec, rows: Sequence[ServedSlice]
) -> UsageError | PreconditionError:
    name = spec.model.name or "the model"
    held = [row for row in rows if row.needed_bytes is not None]
    if not held:
        return UsageError(f"{rows[-1].where.kind.name}: {rows[-1].why}", hint="leave --tensor out")
    nearest = min(held, key=lambda row: (row.needed_bytes or 0.0) / row.usable_bytes)
    counted = count_text(len(rows), "slice")
    verb = "does not fit" if len(rows) == 1 else f"fits on none of {counted}"
    fewer = ", or read weights of fewer bits: --weight-bits 8" if spec.weight_bits > 8 else ""
    return PreconditionError(
        f"{name} {verb}: {nearest.where.kind.name} {nearest.why}",
        hint=f"name larger slices by -t{fewer}",
    )
