"""Rehearse a job: undisturbed runs, then one for each moment, then the report."""

import os
import secrets
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import join
from typing import Protocol

from tpuctl import catalog
from tpuctl.errors import NotFoundError
from tpuctl.jobs.spec import file_rehearse, job_file
from tpuctl.models.job import JobSpec
from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.models.rehearsal.moment import Disturbance, Moment
from tpuctl.models.rehearsal.rehearse_spec import RehearseSpec
from tpuctl.models.rehearsal.verdict import (
    Judgement,
    ReferenceVerdict,
    RehearsalReport,
    Verdict,
)
from tpuctl.operations.local.local_cloud import BUCKET
from tpuctl.operations.rehearse import rehearsal_folder
from tpuctl.operations.rehearse.events import (
    MomentJudged,
    MomentsPlanned,
    ReferenceJudged,
    RehearsalEnded,
    RehearsalEvent,
    RunProgressed,
    RunStarted,
)
from tpuctl.operations.rehearse.judgement.moment_verdict import judge_moment
from tpuctl.operations.rehearse.judgement.observation.run_facts import (
    ReferenceFacts,
    reference_facts,
)
from tpuctl.operations.rehearse.judgement.planned_moments import planned_moments
from tpuctl.operations.rehearse.judgement.reference_verdict import Limits, judge_reference
from tpuctl.operations.rehearse.moment_choice import (
    choose_moments,
    longest_first,
    repeat_moments,
    require_known_names,
)
from tpuctl.operations.rehearse.process_usage import available_bytes
from tpuctl.operations.rehearse.rehearsed_run import RunPlan, carry_out_run
from tpuctl.operations.rehearse.run_pool import (
    CarryOut,
    RunEnded,
    RunPool,
    RunSkipped,
    runs_in_memory,
    runs_that_fit,
)
from tpuctl.operations.rehearse.spare_cores import SpareCores

REFERENCES = ("reference", "reference-2")
REGION = "us-west4"
"""Where the bucket of every rehearsal is."""
APART_S = 1.1
"""Between the beginnings of the two: what a job is named by its second must differ."""
REFERENCE_LIMIT_S = 15 * 60.0
PATIENCE_S = 10.0
"""How long a full zone is waited for at most, in place of `search.patience` of ten minutes."""
DISTURBANCE_S = 240.0
"""How much longer a disturbed run may take than three undisturbed ones."""
RUNS_A_CORE = 4
"""At most so many runs a core at a time, however idle it is."""
RECOVERY_FACTOR = 1.8
"""How much longer than an undisturbed run a disturbed one takes, before one was seen."""


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """A job file, and how it is rehearsed."""

    file: Path
    only: tuple[str, ...] = ()
    """Names of moments, or beginnings or patterns of them; none: every moment."""
    seed: int = 0
    repeat: int = 1
    """How often each moment is tried."""
    budget_s: float | None = None
    """No run begins that would not end within it."""
    python: Path | None = None
    """The workers' python3; by default the one that runs tpuctl."""
    plans_only: bool = False
    """Whether to end when the moments are known."""


class RehearsalRuntime(Protocol):
    """What of its caller a rehearsal uses."""

    @property
    def home(self) -> Path:
        """The directory of this user's own tpuctl files."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of the person who runs the command."""


def rehearse(
    runtime: RehearsalRuntime,
    request: RehearsalRequest,
    carry_out: CarryOut = carry_out_run,
) -> Generator[RehearsalEvent]:
    """Rehearse the job of a file; the last event has the report.

    Closing the iterator ends all that runs. Raises UsageError, NotFoundError, LocalIOError, and
    what keeps a cloud from starting.
    """
    spec, section = job_file.load_with_rehearsal(
        request.file, bucket=BUCKET, environ=runtime.environ
    )
    spec = with_offered_zones(file_rehearse.rehearsed_job(spec, section))
    require_known_names(request.only)
    if request.python is not None:
        request = replace(request, python=existing_program(request.python, runtime.environ))
    rehearsal_folder.end_abandoned_runs(runtime.home)
    unique = secrets.token_hex(3)
    with rehearsal_folder.open_rehearsal(runtime.home, spec.name, unique) as folder:
        yield from _Rehearsal(runtime, request, spec, section, folder, carry_out).events()


@dataclass
class _Rehearsal:
    """One rehearsal under way."""

    runtime: RehearsalRuntime
    request: RehearsalRequest
    spec: JobSpec
    section: RehearseSpec
    folder: Path
    carry_out: CarryOut = carry_out_run
    began_s: float = field(default_factory=time.monotonic)
    references: list[RunEnded] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """The names of the moments that were left out for lack of time."""
    longest_s: float = 0.0
    """The longest disturbed run that was seen, or what one is expected to take."""

    def events(self) -> Iterator[RehearsalEvent]:
        """The undisturbed runs, then the moments, then the report."""
        yield from self._run_references()
        facts = reference_facts(self._evidences, self.section)
        planned = planned_moments(facts, self.request.seed)
        pool = self._moment_pool()
        limits = Limits(available_bytes(), self.request.budget_s, len(planned), pool.side_by_side)
        verdict = self._judge_reference(facts, limits)
        yield ReferenceJudged(verdict)
        if verdict.judgement != Judgement.FAIL:
            chosen = choose_moments(planned, self.request.only)
            moments = repeat_moments(chosen, self.request.repeat)
            yield MomentsPlanned(tuple(moments), min(pool.side_by_side, len(moments)))
            if not self.request.plans_only:
                yield from self._run_moments(pool, facts, moments)
        yield RehearsalEnded(self._report(verdict))

    def _report(self, reference: ReferenceVerdict) -> RehearsalReport:
        return RehearsalReport(
            job=self.spec.name,
            file=str(self.request.file),
            seed=self.request.seed,
            reference=reference,
            verdicts=tuple(self.verdicts),
            skipped=tuple(self.skipped),
            wall_s=time.monotonic() - self.began_s,
        )

    @property
    def _evidences(self) -> list[RunEvidence]:
        """What was observed of the undisturbed runs."""
        return [each.evidence for each in self.references if each.evidence is not None]

    def _run_references(self) -> Iterator[RehearsalEvent]:
        """Run the job undisturbed, twice side by side."""
        limit_s = self.request.budget_s or REFERENCE_LIMIT_S
        plans = [self._plan(name, {}, limit_s) for name in REFERENCES]
        plans[-1] = replace(plans[-1], delay_s=APART_S)
        for news in self._pool(len(plans)).run_all(plans):
            if not isinstance(news, (RunEnded, RunSkipped)):
                yield news
            elif isinstance(news, RunEnded):
                if news.error is not None:
                    raise news.error
                self.references.append(news)
        self.references.sort(key=lambda ended: ended.plan.name)
        self.longest_s = RECOVERY_FACTOR * max(_wall_s(each) for each in self.references)

    def _judge_reference(self, facts: ReferenceFacts, limits: Limits) -> ReferenceVerdict:
        first = self.references[0]
        found = replace(judge_reference(facts, limits), wall_s=_wall_s(first))
        if found.judgement != Judgement.FAIL:
            return found
        kept = replace(found, state_dir=str(first.plan.home))
        rehearsal_folder.keep_run(first.plan.home, kept)
        return kept

    def _run_moments(
        self, pool: RunPool, facts: ReferenceFacts, moments: Sequence[Moment]
    ) -> Iterator[RehearsalEvent]:
        """Run every moment; what is found is kept in the order of `moments`."""
        by_name = {moment.name: moment for moment in moments}
        for news in pool.run_all([self._disturbed(each) for each in longest_first(moments)]):
            if isinstance(news, (RunStarted, RunProgressed)):
                yield news
            elif isinstance(news, RunSkipped):
                self.skipped.append(news.plan.name)
            else:
                self.longest_s = max(self.longest_s, _wall_s(news))
                verdict = self._judge_moment(by_name[news.plan.name], news, facts)
                self.verdicts.append(verdict)
                yield MomentJudged(verdict)
        order = list(by_name)
        self.verdicts.sort(key=lambda verdict: order.index(verdict.moment.name))
        self.skipped.sort(key=order.index)

    def _judge_moment(self, moment: Moment, ended: RunEnded, facts: ReferenceFacts) -> Verdict:
        home, evidence = ended.plan.home, ended.evidence or _unbegun(str(ended.error))
        found = replace(judge_moment(moment, evidence, facts), wall_s=_wall_s(ended))
        if found.judgement in (Judgement.PASS, Judgement.WARN):
            rehearsal_folder.delete_run(home)
            return found
        kept = replace(found, replay=self._replay(moment), state_dir=str(home))
        rehearsal_folder.keep_run(home, kept)
        return kept

    def _replay(self, moment: Moment) -> str:
        name = moment.name.partition("#")[0]
        argv = ["tpuctl", "rehearse", str(self.request.file), "--only", name]
        argv += ["--seed", str(self.request.seed)]
        if self.request.python is not None:
            argv += ["--python", str(self.request.python)]
        return join(argv)

    def _disturbed(self, moment: Moment) -> RunPlan:
        longest_s = max(_wall_s(each) for each in self.references)
        scenario = {**moment.scenario, "timeline": [dict(entry) for entry in moment.timeline]}
        plan = self._plan(moment.name, scenario, 3 * longest_s + DISTURBANCE_S)
        kills = moment.disturbance == Disturbance.SUPERVISOR_KILLED
        return replace(plan, kills_supervisor=kills)

    def _plan(self, name: str, scenario: Mapping[str, object], limit_s: float) -> RunPlan:
        return RunPlan(
            name=name,
            home=rehearsal_folder.run_directory(self.folder, name),
            file=self.request.file,
            spec=self.spec,
            data=self.section.data,
            environ=self.runtime.environ,
            limit_s=limit_s,
            python=self.request.python,
            scenario=scenario,
        )

    def _pool(self, count: int, most: int = 0, run_cores: float = 1.0) -> RunPool:
        spare = SpareCores(run_cores)
        return RunPool(count, self._may_begin, self.carry_out, most, spare.claim)

    def _may_begin(self) -> bool:
        if self.request.budget_s is None:
            return True
        return time.monotonic() - self.began_s + self.longest_s <= self.request.budget_s

    def _moment_pool(self) -> RunPool:
        """As many runs at a time as the undisturbed ones let expect to fit."""
        used = [each.usage for each in self.references if each.usage is not None]
        run_cores = max((each.cpu_s / each.wall_s for each in used), default=1.0)
        run_bytes = max((each.peak_rss_bytes for each in self._evidences), default=0)
        most, cores = runs_in_memory(available_bytes(), run_bytes), os.cpu_count() or 1
        count = min(runs_that_fit(cores, run_cores), most)
        return self._pool(count, min(most, RUNS_A_CORE * cores), run_cores)


def with_offered_zones(spec: JobSpec) -> JobSpec:
    """The job in zones that offer its type, when those of its file, or near its bucket, do not.

    The bucket of a rehearsal is not where that of the job is.
    """
    wanted = spec.resources
    offered = tuple(dict.fromkeys(zone for kind in wanted.types for zone in _zones_of(kind)))
    named = tuple(zone for zone in wanted.zones if zone in offered)
    is_near = any(zone.startswith(f"{REGION}-") for zone in offered)
    if not offered or named or (is_near and not wanted.zones):
        zones = named or wanted.zones
    else:
        zones = offered
    search = replace(spec.search, patience_s=min(spec.search.patience_s, PATIENCE_S))
    return replace(spec, resources=replace(wanted, zones=zones), search=search)


def _zones_of(kind: str) -> tuple[str, ...]:
    with suppress(catalog.UnknownError):  # the submission says which types there are
        return catalog.zones_of(kind)
    return ()


def existing_program(path: Path, environ: Mapping[str, str]) -> Path:
    """The absolute path of a program that is named by a path, or found on PATH.

    Raises NotFoundError.
    """
    where = shutil.which(path, path=environ.get("PATH"))
    if where is None:
        raise NotFoundError(
            f"there is no program {path}", hint="give the path of a python3: .venv/bin/python"
        )
    return Path(where).absolute()


def _wall_s(ended: RunEnded) -> float:
    return ended.usage.wall_s if ended.usage else 0.0


def _unbegun(error: str) -> RunEvidence:
    """What is observed of a run whose cloud did not start: nothing."""
    return RunEvidence(None, 1, error, (), (), ())
