"""Rehearse a job: undisturbed runs, then one for each moment, then the report."""

import os
import secrets
import shutil
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import join
from typing import Protocol

from tpuctl import catalog
from tpuctl.errors import NotFoundError, UsageError
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
from tpuctl.operations.rehearse.judgement.planned_moments import (
    MOMENT_NAMES,
    planned_moments,
)
from tpuctl.operations.rehearse.judgement.reference_verdict import Limits, judge_reference
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
    with _opened(runtime, request, carry_out) as work:
        yield from work.events()


def list_moments(
    runtime: RehearsalRuntime, request: RehearsalRequest, carry_out: CarryOut = carry_out_run
) -> Generator[Moment]:
    """The moments that a rehearsal would try, which two undisturbed runs show.

    Raises what `rehearse` does.
    """
    with _opened(runtime, request, carry_out) as work:
        for _ in work.run_references():
            pass
        yield from work.chosen_moments()


@contextmanager
def _opened(
    runtime: RehearsalRuntime, request: RehearsalRequest, carry_out: CarryOut
) -> "Iterator[_Rehearsal]":
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
        work = _Rehearsal(runtime, request, spec, section, folder, carry_out)
        try:
            yield work
        finally:
            for ended in work.references:
                if ended.plan.home != work.kept:
                    rehearsal_folder.delete_run(ended.plan.home)


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
    kept: Path | None = None
    """The directory of an undisturbed run that is not right."""
    longest_s: float = 0.0
    """The longest disturbed run that was seen, or what one is expected to take."""

    def events(self) -> Iterator[RehearsalEvent]:
        """The undisturbed runs, then the moments, then the report."""
        yield from self.run_references()
        verdict = self._judge_reference()
        if verdict.judgement not in (Judgement.PASS, Judgement.WARN):
            self.kept = self.references[0].plan.home
            verdict = replace(verdict, state_dir=str(self.kept))
        yield ReferenceJudged(verdict)
        verdicts: list[Verdict] = []
        skipped: list[str] = []
        if verdict.judgement in (Judgement.PASS, Judgement.WARN):
            for event in self._run_moments(skipped):
                yield event
                if isinstance(event, MomentsPlanned):
                    order = [moment.name for moment in event.moments]
                elif isinstance(event, MomentJudged):
                    verdicts.append(event.verdict)
            verdicts.sort(key=lambda found: order.index(found.moment.name))
            skipped.sort(key=order.index)
        yield RehearsalEnded(
            RehearsalReport(
                job=self.spec.name,
                file=str(self.request.file),
                seed=self.request.seed,
                reference=verdict,
                verdicts=tuple(verdicts),
                skipped=tuple(skipped),
                wall_s=time.monotonic() - self.began_s,
            )
        )

    @property
    def evidences(self) -> list[RunEvidence]:
        """What was observed of the undisturbed runs."""
        return [each.evidence for each in self.references if each.evidence is not None]

    def run_references(self) -> Iterator[RehearsalEvent]:
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

    def _judge_reference(self) -> ReferenceVerdict:
        limits = Limits(available_bytes(), self.request.budget_s)
        found = judge_reference(self.evidences, self.section, limits)
        return replace(found, wall_s=_wall_s(self.references[0]))

    def _run_moments(self, skipped: list[str]) -> Iterator[RehearsalEvent]:
        moments = _repeated(self.chosen_moments(), self.request.repeat)
        by_name = {moment.name: moment for moment in moments}
        pool = self._moment_pool()
        yield MomentsPlanned(tuple(moments), min(pool.side_by_side, len(moments)))
        plans = [self._disturbed(moment) for moment in longest_first(moments)]
        for news in pool.run_all(plans):
            if isinstance(news, (RunStarted, RunProgressed)):
                yield news
            elif isinstance(news, RunSkipped):
                skipped.append(news.plan.name)
            else:
                self.longest_s = max(self.longest_s, _wall_s(news))
                yield MomentJudged(self._judge_moment(by_name[news.plan.name], news))

    def chosen_moments(self) -> list[Moment]:
        """The moments that are to be tried. Raises UsageError."""
        planned = planned_moments(self.evidences, self.section, self.request.seed)
        return choose_moments(planned, self.request.only)

    def _judge_moment(self, moment: Moment, ended: RunEnded) -> Verdict:
        evidence = ended.evidence or _unbegun(str(ended.error))
        found = judge_moment(moment, evidence, self.evidences, self.section)
        is_good = found.judgement in (Judgement.PASS, Judgement.WARN)
        if is_good:
            rehearsal_folder.delete_run(ended.plan.home)
        return replace(
            found,
            replay="" if is_good else self._replay(moment),
            state_dir="" if is_good else str(ended.plan.home),
            wall_s=_wall_s(ended),
        )

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
        run_bytes = max((each.peak_rss_bytes for each in self.evidences), default=0)
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


def require_known_names(only: Sequence[str]) -> None:
    """Raise UsageError for a name that no job's moment has, before anything is run."""
    for wanted in only:
        if not any(is_named(name, wanted) for name in MOMENT_NAMES):
            raise UsageError(
                f"there is no moment {wanted!r}", hint=f"there are: {', '.join(MOMENT_NAMES)}"
            )


def choose_moments(moments: Sequence[Moment], only: Sequence[str]) -> list[Moment]:
    """The moments that are named: wholly, by a beginning up to a `/` or `:`, or by a pattern.

    Raises UsageError for a name that no moment has.
    """
    for wanted in only:
        if not any(is_named(moment.name, wanted) for moment in moments):
            names = ", ".join(moment.name for moment in moments)
            raise UsageError(f"there is no moment {wanted!r}", hint=f"there are: {names}")
    return [
        moment
        for moment in moments
        if not only or any(is_named(moment.name, wanted) for wanted in only)
    ]


def longest_first(moments: Iterable[Moment]) -> list[Moment]:
    """The same moments, those first that wait longest: others run meanwhile."""
    return sorted(
        moments,
        key=lambda moment: (
            moment.disturbance == Disturbance.PREEMPTION,
            -(moment.notice_s or 0.0),
        ),
    )


def is_named(name: str, wanted: str) -> bool:
    """Whether a moment is meant by a name, by its beginning or by a pattern."""
    return (
        name == wanted or name.startswith((f"{wanted}/", f"{wanted}:")) or fnmatchcase(name, wanted)
    )


def _repeated(moments: Iterable[Moment], count: int) -> list[Moment]:
    """Every moment so many times, those after the first with a number behind their names."""
    return [
        moment if number == 1 else replace(moment, name=f"{moment.name}#{number}")
        for moment in moments
        for number in range(1, count + 1)
    ]


def _wall_s(ended: RunEnded) -> float:
    return ended.usage.wall_s if ended.usage else 0.0


def _unbegun(error: str) -> RunEvidence:
    """What is observed of a run whose cloud did not start: nothing."""
    return RunEvidence(None, 1, error, (), (), ())
