"""`tpuctl predict`: a batch job from a checkpoint or another job's spec, and what it came to."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpuctl.errors import DamagedStateError, IntegrityError, NotFoundError, UsageError
from tpuctl.jobs.spec import file_predict
from tpuctl.models.inference.predict_spec import PredictSpec
from tpuctl.models.job import Budget, JobRecord, JobSpec, Resources, Restart, Teardown, Timeouts
from tpuctl.models.search import Search
from tpuctl.operations.jobs import queries
from tpuctl.operations.jobs.events import JobRuntime
from tpuctl.operations.slices import spending
from tpuctl.store import Store

STEP_FOLDER = re.compile(r"(gs://.+)/step_(\d{12})")
LONGEST_NAME = 40
MILLION = 1e6


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """What the command line says of a batch job."""

    source: str
    """A gs:// URL of a checkpoint or of one of its steps, or a job."""
    input: str
    output: str
    program: Path | None = None
    command: str | None = None
    step: int | None = None
    format: str | None = None
    unit_rows: int | None = None
    batch: int | None = None
    max_rejects: int | None = None
    accelerator_type: str | None = None
    use_spot: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True)
class PredictSummary:
    """What a batch job came to, as its manifest and its record say."""

    job_id: str
    output: str
    rows: int
    rejected: int
    units: int
    time_s: float | None
    """For how long its programs ran, all attempts together."""
    usd: float | None

    @property
    def rows_per_s(self) -> float | None:
        """Rows of all workers in a second."""
        return self.rows / self.time_s if self.time_s else None

    @property
    def usd_per_million_rows(self) -> float | None:
        """By the list price; None where it is not known, or there are no rows."""
        return None if self.usd is None or not self.rows else self.usd / self.rows * MILLION


def build_spec(runtime: JobRuntime, request: PredictRequest) -> JobSpec:
    """The batch job that a command line asks for; raises UsageError, NotFoundError."""
    if request.source.startswith("gs://"):
        spec = _spec_of_checkpoint(request)
    else:
        spec = _spec_of_job(queries.find_job(runtime, request.source), request)
    spec = _with_program(spec, request)
    if spec.resources.accelerators is None:
        raise UsageError(
            "the type of the slice is not known: a checkpoint does not say it",
            hint="give -t, such as -t v5litepod-4; run: tpuctl catalog types",
        )
    return spec


def summarize_predictions(runtime: JobRuntime, job: JobRecord) -> PredictSummary:
    """Verify the outputs of an ended job by their manifest, and add up what it cost.

    Raises IntegrityError when an output is missing or is not what was written.
    """
    predict = job.spec.predict
    assert predict is not None  # noqa: S101 (a job of `predict`)
    manifest = verify_outputs(runtime.store(predict.output))
    ran = [attempt.ran_s for attempt in job.attempts if attempt.ran_s is not None]
    return PredictSummary(
        job_id=job.job_id,
        output=predict.output,
        rows=manifest["rows_in"],
        rejected=manifest["rows_rejected"],
        units=manifest["units"],
        time_s=sum(ran) if ran else None,
        usd=spending.spending_of(job, runtime.now()).usd,
    )


def verify_outputs(output: Store) -> dict[str, Any]:
    """The manifest of an output whose objects are all there, with the sizes and checksums it says.

    Raises NotFoundError without a manifest, IntegrityError, DamagedStateError.
    """
    from tpuctl.serving.batch.unit_plan import SUCCESS_KEY

    try:
        manifest: dict[str, Any] = json.loads(output.get_range(SUCCESS_KEY))
        files = [*manifest["outputs"], *manifest["rejects"]]
        written = {each["name"]: (each["size_bytes"], each["crc32c"]) for each in files}
        rows = sum(each["rows"] for each in files)
        rows_in = manifest["rows_in"]
    except NotFoundError as error:
        raise NotFoundError(
            f"there is no {SUCCESS_KEY} in {output.url}: not every unit is done",
            hint="run the same command again: what is done stays",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedStateError(f"{output.url}/{SUCCESS_KEY} cannot be read: {error}") from error
    there = {entry.key: (entry.size_bytes, entry.crc32c) for entry in output.list()}
    for name, facts in written.items():
        if there.get(name) != facts:
            what = "is missing" if name not in there else "is not what was written"
            raise IntegrityError(f"{output.url}/{name} {what}")
    if rows != rows_in or len(written) != len(files):
        raise IntegrityError(f"{output.url}: {rows_in} rows were read, and {rows} are written")
    return manifest


def _spec_of_checkpoint(request: PredictRequest) -> JobSpec:
    folder = STEP_FOLDER.fullmatch(request.source.rstrip("/"))
    directory, step = (folder[1], int(folder[2])) if folder else (request.source.rstrip("/"), None)
    predict = _predict_of(request, PredictSpec("", ""), directory, step)
    return JobSpec(
        name=request.name or "predict",
        run=file_predict.RUN,
        restart=Restart(exit_codes=file_predict.RESTART_EXIT_CODES),
        resources=Resources(accelerators=request.accelerator_type, use_spot=request.use_spot),
        predict=predict,
    )


def _spec_of_job(job: JobRecord, request: PredictRequest) -> JobSpec:
    """The job's own spec with other work: its checkpoints are read, and no longer claimed."""
    spec = job.spec
    before = spec.predict or PredictSpec("", "")
    directory = before.checkpoint or (spec.checkpoints.dir if spec.checkpoints else None)
    if directory is None and spec.predict is None:
        raise UsageError(
            f"job {job.job_id} has no checkpoints", hint="name a checkpoint: gs://BUCKET/PREFIX"
        )
    resources = spec.resources
    if request.accelerator_type:
        resources = replace(
            resources, accelerators=request.accelerator_type, alternatives=(), topology=None,
            num_slices=1,
        )  # fmt: skip
    return replace(
        spec,
        name=request.name or f"{spec.name[: LONGEST_NAME - len('-predict')]}-predict",
        run=spec.run if spec.predict else file_predict.RUN,
        resources=replace(resources, use_spot=resources.use_spot or request.use_spot),
        predict=_predict_of(request, before, directory, None),
        restart=Restart(exit_codes=file_predict.RESTART_EXIT_CODES),
        checkpoints=None,
        progress=None,
        ray=None,
        serve=None,
        timeouts=Timeouts(),
        budget=Budget(),
        search=Search(),
        teardown=Teardown.ALWAYS,
    )


def _predict_of(
    request: PredictRequest, before: PredictSpec, directory: str | None, step: int | None
) -> PredictSpec:
    given = {
        name: value
        for name in ("format", "unit_rows", "batch", "max_rejects")
        if (value := getattr(request, name)) is not None
    }
    return replace(
        before,
        input=request.input,
        output=request.output.rstrip("/"),
        checkpoint=directory,
        step=step if request.step is None else request.step,
        manifest="",
        **given,
    )


def _with_program(spec: JobSpec, request: PredictRequest) -> JobSpec:
    """The spec with the program or command of the command line; raises UsageError without one."""
    predict = spec.predict
    assert predict is not None  # noqa: S101 (both makers set it)
    if request.command:
        return replace(spec, predict=replace(predict, command=request.command, program=None))
    if request.program is not None:
        workdir, module = _module_of(request.program, spec.workdir)
        return replace(
            spec, workdir=workdir, predict=replace(predict, program=module, command=None)
        )
    if predict.program is None and predict.command is None:
        raise UsageError(
            "which program predicts is not known",
            hint="give --program FILE, a file of Python with load(checkpoint) and"
            " predict(model, batch)",
        )
    if spec.workdir is not None and not Path(spec.workdir).is_dir():
        raise UsageError(
            f"the workdir of {request.source} is not on this machine: {spec.workdir}",
            hint="give --program FILE",
        )
    return spec


def _module_of(program: Path, workdir: str | None) -> tuple[str, str]:
    """The working directory to send, and the module's name in it."""
    path = program.expanduser().resolve()
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(
            f"--program {program} is not a file of Python",
            hint="give the path of a file with load(checkpoint) and predict(model, batch)",
        )
    root = Path(workdir) if workdir is not None else path.parent
    if not path.is_relative_to(root):
        root = path.parent
    return str(root), ".".join(path.relative_to(root).with_suffix("").parts)
