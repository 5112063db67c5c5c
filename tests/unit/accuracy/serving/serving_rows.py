"""Published rows of serving: what was run, what was measured, and what the model says of it.

A row's figure is turned into seconds: of one token of a request (TPOT, ITL), of one token of the
engine (throughput), or until the first token. In the closed loop of a benchmark `requests` clients
wait for an answer and ask again, until `prompts` are answered; no more run at once than the engine
has slots and memory for.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.serving.decode_step import DecodeWork, decode_work
from tpuctl.perfmodel.workload.serving.forward_pass import (
    PassWork,
    sequence_cache_bytes,
    weight_parameters,
)
from tpuctl.perfmodel.workload.serving.prefill import prompt_work
from tpuctl.perfmodel.workload.serving.serving_constants import canonical_name
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware, slice_hardware
from tpuctl.perfmodel.workload.transformer import Transformer

FILE = Path(__file__).with_name("serving_rows.json")
CACHE_SHARE = 0.92
"""Share of a device's memory that engines give to weights and cache, as most recipes set it."""

_THROUGHPUT = ("output_tok_s", "output_tok_s_per_chip", "requests_per_s")
METRICS = (
    "median_tpot_ms",
    "mean_tpot_ms",
    "mean_itl_ms",
    "median_itl_ms",
    "median_ttft_ms",
    "burst_ttft_ms",
    *_THROUGHPUT,
)
_RUN = {field.name for field in fields(ServingRun)} - {"parallelism", "requests"}


@dataclass(frozen=True, slots=True)
class ServingRow:
    """One published figure; `run.requests` are those that run at once."""

    model: str
    hardware: SliceHardware
    shape: Transformer
    run: ServingRun
    clients: int
    prompts: int
    metric: str
    value: float
    use: str
    source: str

    @property
    def is_throughput(self) -> bool:
        """Whether the figure is of all requests together."""
        return self.metric in _THROUGHPUT

    @property
    def measured_s(self) -> float:
        """The figure as seconds."""
        if self.metric.endswith("_ms"):
            return self.value / 1e3
        per_s = self.value
        if self.metric == "output_tok_s_per_chip":
            per_s *= self.hardware.chips
        if self.metric == "requests_per_s":
            per_s *= self.run.output_tokens
        return 1 / per_s

    @property
    def label(self) -> str:
        """What was run, in a few words."""
        ways = self.run.parallelism
        split = "".join(
            f" {name}{getattr(ways, name)}"
            for name in ("data", "expert", "tensor")
            if getattr(ways, name) > 1
        )
        sizes = f"{self.run.prompt_tokens}/{self.run.output_tokens} x{self.clients}"
        place = f"{self.hardware.generation} {self.hardware.topology}{split}"
        return f"{self.model} {place} {sizes} {self.metric}"


@cache
def rows() -> tuple[ServingRow, ...]:
    """All rows, in the order of the file."""
    publications = json.loads(FILE.read_text("utf-8"))
    return tuple(
        _row(one, {**one["common"], **dict(zip(one["columns"], cells, strict=True))})
        for one in publications
        for cells in one["rows"]
    )


def notes() -> list[tuple[str, str, int]]:
    """Source, note and number of rows of every publication."""
    return [
        (one["source"], one["notes"], len(one["rows"]))
        for one in json.loads(FILE.read_text("utf-8"))
    ]


def _row(publication: Mapping[str, Any], cells: Mapping[str, Any]) -> ServingRow:
    shape = known_transformer(cells["model"])
    hardware = slice_hardware(cells["generation"], cells["topology"])
    ways = {name: cells[name] for name in ("data", "tensor", "expert") if name in cells}
    run = ServingRun(
        requests=cells["requests"],
        parallelism=Parallelism(**ways),
        engine=publication["engine"],
        **{name: value for name, value in cells.items() if name in _RUN},
    )
    cached = round(cells.get("cached_share", 0) * run.prompt_tokens)
    run = replace(run, cached_prompt_tokens=cached)
    slots = cells.get("slots", run.requests)
    at_once = min(run.requests, slots, capacity(hardware, shape, run), budget(cells, run))
    return ServingRow(
        model=canonical_name(shape),
        hardware=hardware,
        shape=shape,
        run=replace(run, requests=at_once, prefills_per_step=prompts_beside(cells, at_once)),
        clients=cells["requests"],
        prompts=cells.get("prompts", 10 * cells["requests"]),
        metric=cells["metric"],
        value=cells["value"],
        use=cells["use"],
        source=publication["source"],
    )


def prompts_beside(cells: Mapping[str, Any], requests: int) -> float | None:
    """Prompts of others that are read in a step while a request generates; None is the loop's.

    Between tokens without a prompt there is none. Of the first wave, which comes at once, and of
    all waves of requests of one length, a request waits for half of the others only; and in a last
    wave that is a part of one, for half of that part.
    """
    if cells["metric"] in _THROUGHPUT:
        return None
    if cells["metric"] == "median_itl_ms":
        return 0
    waves = max(cells.get("prompts", 10 * cells["requests"]) / cells["requests"], 1)
    rest = waves % 1
    share = 0.5 if cells.get("is_in_waves") else 1 - (0.5 + rest * (1 - rest / 2)) / waves
    return float(share * (requests - 1) / cells["output_tokens"])


def budget(cells: Mapping[str, Any], run: ServingRun) -> int:
    """Requests that generate while the others' prompts take the rest of every step's tokens."""
    share = 1 + (run.prompt_tokens - run.cached_prompt_tokens) / run.output_tokens
    return (
        int(cells.get("batch_tokens", math.inf) * run.parallelism.batch_ways / share or 1)
        if "batch_tokens" in cells
        else run.requests
    )


def capacity(hardware: SliceHardware, shape: Transformer, run: ServingRun) -> int:
    """Requests whose caches fit beside the weights."""
    ways, device = run.parallelism, hardware.device
    dense, one_expert = weight_parameters(shape)
    count = shape.experts.count if shape.experts else 0
    experts = one_expert * count * run.bytes_of_expert_weight / (ways.expert * ways.tensor)
    weights = dense * run.weight_bytes / ways.tensor + experts
    free = CACHE_SHARE * device.usable_bytes - weights
    one_request = sequence_cache_bytes(shape, run, float(run.mean_length))
    return max(int(free / one_request) * ways.batch_ways, ways.batch_ways)


@dataclass(frozen=True, slots=True)
class RowWork:
    """The work of a row: a step with all requests, one with those of the last wave, one prompt."""

    step: DecodeWork
    last_step: DecodeWork
    alone: PassWork


def work_of(row: ServingRow) -> RowWork:
    """What the engine does for a row."""
    last = row.prompts % row.run.requests or row.run.requests
    return RowWork(
        step=decode_work(row.hardware, row.shape, row.run),
        last_step=decode_work(row.hardware, row.shape, replace(row.run, requests=last)),
        alone=prompt_work(row.hardware, row.shape, row.run, 1.0),
    )


def seconds_of(row: ServingRow, token_s: float, last_token_s: float, first_s: float) -> float:
    """The seconds that the figure of a row would be, of the times of tokens and of a prompt."""
    if row.is_throughput:
        waves, rest = divmod(row.prompts, row.run.requests)
        after_first = row.run.output_tokens - 1
        duration = waves * (first_s + after_first * token_s)
        duration += (first_s + after_first * last_token_s) if rest else 0
        return duration / (row.prompts * row.run.output_tokens)
    if row.metric == "median_ttft_ms":
        return first_s
    if row.metric == "burst_ttft_ms":  # the first wave waits for half of the others, the next all
        waves = row.prompts / row.clients
        return first_s * ((row.clients + 1) / 2 + (waves - 1) * row.clients) / waves
    return token_s
