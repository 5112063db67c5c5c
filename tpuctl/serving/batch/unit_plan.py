"""The plan of a batch job: its inputs and units, written once and the same for every worker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from tpuctl.errors import (
    ConflictError,
    DamagedStateError,
    NotFoundError,
    PreconditionError,
    UsageError,
)
from tpuctl.serving.batch.batch_settings import SCHEMA, BatchSettings
from tpuctl.serving.batch.formats.file_format import ROW, InputSurvey, TableColumn, UnitRange
from tpuctl.serving.batch.formats.input_reader import InputObject, InputReader
from tpuctl.serving.batch.formats.known_formats import OUTPUT_NAMES, open_format, output_name
from tpuctl.serving.batch.input_objects import formats_of, list_inputs, split_pattern
from tpuctl.store import Store

RECORDS = "_tpuctl/"
"""Below the output: what the workers need to know of each other."""
PLAN_KEY = f"{RECORDS}plan.json"
REJECTS = "_rejects/"
SUCCESS_KEY = "_SUCCESS"
SURVEY_THREADS = 16


class PlannedUnit(NamedTuple):
    """A part of an input that one worker predicts at a time."""

    number: int
    input: InputObject
    range: UnitRange

    @property
    def done_key(self) -> str:
        """The record that its outputs are in."""
        return f"{RECORDS}done/{self.number:08d}.json"


@dataclass(frozen=True)
class UnitPlan:
    """What every worker of every attempt reads from the output's directory."""

    version: str
    """The digest of the program, the checkpoint and the settings."""
    input: str
    input_format: str
    output_format: str
    columns: tuple[TableColumn, ...]
    inputs: tuple[InputObject, ...]
    """All of them, those without a row too."""
    units: tuple[PlannedUnit, ...]

    def output_key(self, unit: PlannedUnit) -> str:
        """The name of a unit's output: a function of input, range and version, and injective."""
        stem = unit.input.key.rpartition(".")[0]
        start, end = unit.range.start, unit.range.end
        facts = [unit.input.key, unit.input.generation, start, end, self.version]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        return f"{stem}-{start:012d}-{end:012d}-{digest}.{self.output_format}"

    def rejects_key(self, unit: PlannedUnit) -> str:
        """The name of the rows of a unit that were rejected."""
        return f"{REJECTS}{self.output_key(unit).rpartition('.')[0]}.jsonl"


def find_plan(output: Store, settings: BatchSettings, version: str) -> UnitPlan | None:
    """The plan of an output, None before there is one.

    Raises ConflictError when the output belongs to another program, checkpoint or input.
    """
    try:
        data = output.get_range(PLAN_KEY)
    except NotFoundError:
        return None
    plan = decode_plan(data, output.url)
    if plan.version != version or plan.input != settings.input:
        what = "another input" if plan.version == version else "another program or checkpoint"
        raise ConflictError(
            f"{output.url} has the predictions of {what}",
            hint="choose another output, or empty it: tpuctl data rm --help",
        )
    return plan


def make_plan(inputs: Store, output: Store, settings: BatchSettings, version: str) -> UnitPlan:
    """List the inputs, cut them into units, and write the plan, unless another worker has.

    Raises UsageError, NotFoundError (the inputs), ConflictError (the output is not empty).
    """
    refuse_used_output(output)
    found = list_inputs(inputs, split_pattern(settings.input)[1], settings.input)
    input_format = formats_of(found)
    output_format = settings.output_format or output_name(input_format)
    if output_format not in OUTPUT_NAMES:
        raise UsageError(f"outputs cannot be {output_format}: one of {', '.join(OUTPUT_NAMES)}")
    columns, units = survey_inputs(inputs, found, input_format, settings.unit_rows)
    plan = UnitPlan(
        version, settings.input, input_format, output_format, columns, tuple(found), units
    )
    try:
        output.put_if_absent(PLAN_KEY, encode_plan(plan))
    except PreconditionError:
        written = find_plan(output, settings, version)
        return plan if written is None else written
    return plan


def refuse_used_output(output: Store) -> None:
    """Raise ConflictError when there are objects at an output that has no plan."""
    there = next((entry for entry in output.list() if entry.key != PLAN_KEY), None)
    if there is not None:
        raise ConflictError(
            f"the output is not empty: {output.url}/{there.key}",
            hint="choose another output: every object below it is a prediction's",
        )


def survey_inputs(
    inputs: Store, found: Sequence[InputObject], input_format: str, unit_rows: int
) -> tuple[tuple[TableColumn, ...], tuple[PlannedUnit, ...]]:
    """The columns that all inputs have, and the units of all, in the order of the inputs."""
    kind = open_format(input_format)
    with ThreadPoolExecutor(SURVEY_THREADS) as pool:
        surveys = list(
            pool.map(lambda each: kind.survey(InputReader(inputs, each), unit_rows), found)
        )
    columns = _common_columns(inputs.url, found, surveys)
    pairs = (
        (each, span) for each, survey in zip(found, surveys, strict=True) for span in survey.ranges
    )
    return columns, tuple(PlannedUnit(at, each, span) for at, (each, span) in enumerate(pairs))


def encode_plan(plan: UnitPlan) -> bytes:
    """The bytes of a plan: the same for the same plan."""
    places = {each: place for place, each in enumerate(plan.inputs)}
    document = {
        "schema": SCHEMA,
        "version": plan.version,
        "input": plan.input,
        "input_format": plan.input_format,
        "output_format": plan.output_format,
        "columns": plan.columns,
        "inputs": plan.inputs,
        "units": [[places[unit.input], *unit.range] for unit in plan.units],
    }
    return json.dumps(document).encode()


def decode_plan(data: bytes, url: str) -> UnitPlan:
    """A plan from its bytes; raises DamagedStateError."""
    try:
        found = json.loads(data)
        if found["schema"] != SCHEMA:
            raise DamagedStateError(
                f"{url}/{PLAN_KEY} has schema {found['schema']}, this tpuctl reads {SCHEMA}"
            )
        inputs = tuple(InputObject(*each) for each in found["inputs"])
        return UnitPlan(
            found["version"],
            found["input"],
            found["input_format"],
            found["output_format"],
            tuple(_column(*each) for each in found["columns"]),
            inputs,
            tuple(
                PlannedUnit(number, inputs[place], UnitRange(*span))
                for number, (place, *span) in enumerate(found["units"])
            ),
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise DamagedStateError(f"{url}/{PLAN_KEY} cannot be read: {error}") from error


def _column(name: str, kind: str, shape: Iterable[int]) -> TableColumn:
    return TableColumn(name, kind, tuple(shape))


def _common_columns(
    url: str, found: Sequence[InputObject], surveys: Sequence[InputSurvey]
) -> tuple[TableColumn, ...]:
    """The columns of every input; one of numbers in some and text in others is text."""
    first, kinds = surveys[0].columns, [column.kind for column in surveys[0].columns]
    for each, survey in zip(found, surveys, strict=True):
        for place, (own, other) in enumerate(_pairs(url, found[0], first, each, survey.columns)):
            if own.kind != other.kind:
                kinds[place] = _joined_kind(url, found[0], own, each, other)
    columns = tuple(column._replace(kind=kind) for column, kind in zip(first, kinds, strict=True))
    if any(column.name == ROW for column in columns):
        raise UsageError(f"{url}/{found[0].key} has a column {ROW!r}, which outputs use themselves")
    return columns


def _pairs(
    url: str,
    first: InputObject,
    columns: Sequence[TableColumn],
    other: InputObject,
    others: Sequence[TableColumn],
) -> list[tuple[TableColumn, TableColumn]]:
    same = [(each.name, each.shape) for each in columns]
    if same != [(each.name, each.shape) for each in others]:
        raise UsageError(
            f"the columns of {url}/{first.key} and {other.key} differ: "
            f"{_describe(columns)} | {_describe(others)}",
            hint="all inputs need the same columns in the same order",
        )
    return list(zip(columns, others, strict=True))


def _joined_kind(
    url: str, first: InputObject, own: TableColumn, other: InputObject, column: TableColumn
) -> str:
    kinds = {own.kind, column.kind}
    if kinds == {"number", "text"} and first.key.endswith(".csv"):
        return "text"
    raise UsageError(
        f"column {own.name!r} is {own.kind} in {url}/{first.key}, {column.kind} in {other.key}",
        hint="all inputs need the same columns of the same type",
    )


def _describe(columns: Sequence[TableColumn]) -> str:
    return ", ".join(column.describe() for column in columns)[:200] or "none"
