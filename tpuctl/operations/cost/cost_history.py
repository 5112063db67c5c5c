"""Everything that is known of the slices of a context: of the ledger, the API and the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.errors import DamagedStateError, TpuctlError
from tpuctl.ledger.cloud_clock import measure_offset_s
from tpuctl.ledger.settled_lives import SliceLedger
from tpuctl.ledger.slice_facts import life_of
from tpuctl.ledger.slice_notes import note_facts, read_ledger
from tpuctl.ledger.slice_survey import SliceSurvey, lacking_facts, new_facts, with_facts
from tpuctl.models.job import JobRecord
from tpuctl.models.money.slice_life import SliceLife
from tpuctl.models.node import Node
from tpuctl.models.operation import Operation
from tpuctl.operations.cost.job_accounts import JobAccount, keep_jobs, read_jobs, uses_by_node
from tpuctl.operations.cost.job_facts import JobUse, KnownNodes, facts_of_job
from tpuctl.operations.slices.flex_start import with_flex_start
from tpuctl.store import Store

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi

ALL_ZONES = "-"


@dataclass(frozen=True, slots=True)
class CostHistory:
    """The lives of all slices that anybody has seen, up to `now_s` of the cloud's clock."""

    now_s: float
    lives: Sequence[SliceLife] = ()
    jobs: Mapping[str, JobAccount] = field(default_factory=dict)
    uses: Mapping[str, Sequence[JobUse]] = field(default_factory=dict)
    """By node id, when jobs used slices that are not their own."""
    missing: Sequence[str] = ()
    """One sentence for each thing that could not be read: what it would say is an estimate."""


class _Answers(NamedTuple):
    """What was read side by side."""

    ledger: SliceLedger
    nodes: list[Node] | None
    unreachable: list[str]
    operations: list[Operation]
    jobs: list[JobAccount]
    offset_s: float
    missing: list[str]


def read_history(
    api: TpuApi, store: Store, home: Path, now: Callable[[], float], *, is_noted: bool = True
) -> CostHistory:
    """Read the ledger, look at all slices there are, and note what the ledger lacks.

    Raises the errors of the bucket. What the API does not answer is named in `missing`.
    """
    answers = _read_side_by_side(api, store, home, now)
    now_s = now() + answers.offset_s
    known, settled = answers.ledger.known, answers.ledger.settled
    told: list[dict[str, Any]] = []
    if answers.nodes is not None:
        survey = SliceSurvey(
            now_s, answers.nodes, answers.operations, unreachable=answers.unreachable
        )
        told = new_facts(survey, known)
    records = [each.record for each in answers.jobs if each.record is not None]
    told += _job_facts(records, answers.ledger, told)
    told = [fact for fact in told if fact["slice"] not in settled]
    if is_noted:
        with suppress(TpuctlError):  # what cannot be noted is still counted
            note_facts(store, home, told, now_s)
            keep_jobs(home, store.url, answers.jobs)
    every = with_facts(known, told)
    return CostHistory(
        now_s,
        [*settled.values(), *(life_of(facts, now_s) for _, facts in sorted(every.items()))],
        {job.job_id: job for job in answers.jobs},
        uses_by_node(answers.jobs),
        answers.missing,
    )


def _job_facts(
    jobs: Sequence[JobRecord], ledger: SliceLedger, told: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """What the records tell beyond what is known."""
    if not jobs:
        return iter(())
    present = [facts.identity for facts in with_facts(ledger.known, told).values()]
    nodes = KnownNodes([*(life.identity for life in ledger.settled.values()), *present])
    facts = [fact for record in jobs for fact in facts_of_job(record, nodes)]
    return lacking_facts(facts, ledger.known)


def _read_side_by_side(api: TpuApi, store: Store, home: Path, now: Callable[[], float]) -> _Answers:
    missing: list[str] = []

    def nodes() -> tuple[list[Node] | None, list[str]]:
        try:
            found, unreachable = api.read_nodes(ALL_ZONES)
        except TpuctlError as error:
            missing.append(f"the slices that there are now: {error}")
            return None, []
        missing.extend(f"{zone} did not answer: what is there now" for zone in unreachable)
        return with_flex_start(api, found), unreachable

    def operations() -> list[Operation]:
        try:
            return api.list_operations(ALL_ZONES)
        except TpuctlError as error:
            missing.append(f"the times of the API's operations: {error}")
            return []

    def offset_s() -> float:
        try:
            return measure_offset_s(store, home, now)
        except TpuctlError:  # a bucket that may only be read
            return 0.0

    def unreadable(error: DamagedStateError) -> None:
        missing.append(str(error))

    readers: list[Callable[[], Any]] = [
        lambda: read_ledger(store, home),
        nodes,
        operations,
        lambda: read_jobs(store, home, now(), unreadable),
        offset_s,
    ]
    found = parallel_map(lambda read: read(), readers, threads=len(readers))
    ledger, (present, unreachable), listed, jobs, difference_s = found
    return _Answers(ledger, present, unreachable, listed, jobs, difference_s, missing)
