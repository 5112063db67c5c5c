"""What is observed of a run at its end, and the file that keeps it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tpuctl.api.control import ControlApi
from tpuctl.errors import NotFoundError, TpuctlError
from tpuctl.jobs import client
from tpuctl.jobs.logs import log_stream
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.models.rehearsal.evidence import CheckpointCheck, FiredEntry, RunEvidence
from tpuctl.operations.checkpoints import survey, verify
from tpuctl.operations.checkpoints.step_view import CheckpointKind, StepState
from tpuctl.operations.checkpoints.survey import CheckpointLocation
from tpuctl.operations.checkpoints.verify import VerifyResult
from tpuctl.operations.rehearse.rehearsal_folder import EVIDENCE, write_document
from tpuctl.operations.rehearse.run_buckets import bucket_names
from tpuctl.operations.rehearse.run_clients import RunClients

DONE = "done"
"""The state of an entry of a timeline that has happened."""
OWN_PREFIX = "tpuctl/"
"""What tpuctl keeps in the bucket of jobs."""
FORMATS = {
    CheckpointKind.TPUCTL: "tpuctl",
    CheckpointKind.ORBAX: "orbax",
    CheckpointKind.DCP: "dcp",
    CheckpointKind.SAFETENSORS: "safetensors",
}
GOOD = frozenset({verify.StepVerdict.WHOLE, verify.StepVerdict.UNSEALED})
"""A step of another framework that is complete and has no seal is as good as can be seen."""


def collect_evidence(
    clients: RunClients,
    control: ControlApi,
    spec: JobSpec,
    job: JobRecord | None,
    error: TpuctlError | None,
) -> RunEvidence:
    """Everything that can be observed of a job that has ended, or was given up."""
    error = error or (client.error_of(job) if job else None)
    lines = log_stream.read(clients.outside, job.job_id) if job else ()
    buckets = sorted({clients.context.bucket, *bucket_names(spec, {})})
    return RunEvidence(
        job=job,
        exit_code=error.exit_code if error else 0,
        error=str(error) if error else "",
        lines=tuple(lines),
        requests=tuple(each for each in control.requests() if each.bucket in buckets),
        fired=tuple(fired_entries(control.timeline())),
        objects=dict(_objects(clients, buckets)),
        checkpoint=_checked(clients, spec),
        leftovers=tuple(_leftovers(clients)),
    )


def with_times(
    evidence: RunEvidence, began_s: float, ended_s: float, peak_bytes: int
) -> RunEvidence:
    """The evidence with when it began and ended, and the memory that was needed."""
    return replace(evidence, began_s=began_s, ended_s=ended_s, peak_rss_bytes=peak_bytes)


def save_evidence(home: Path, evidence: RunEvidence) -> None:
    """Keep the evidence with the run. Raises LocalIOError."""
    write_document(home / EVIDENCE, asdict(evidence))


def fired_entries(timeline: Iterable[Mapping[str, Any]]) -> Iterator[FiredEntry]:
    """The entries of a timeline that have happened."""
    for entry in timeline:
        if entry["state"] == DONE:
            yield FiredEntry(entry["name"], entry["fired_s"], entry["request"] or 0)


def _objects(clients: RunClients, buckets: Sequence[str]) -> Iterator[tuple[str, int]]:
    for bucket in buckets:
        for entry in clients.store(f"gs://{bucket}").list():
            if not entry.key.startswith(OWN_PREFIX):
                yield f"{bucket}/{entry.key}", entry.size_bytes


def _checked(clients: RunClients, spec: JobSpec) -> CheckpointCheck | None:
    """What `checkpoint verify --all` finds; None for a job without a directory of checkpoints."""
    if spec.checkpoints is None:
        return None
    place = CheckpointLocation(spec.checkpoints.dir, clients.store)
    try:
        steps = survey.survey_directory(place).steps
    except NotFoundError:
        return CheckpointCheck("", problem=f"no format that tpuctl knows is in {place.url}")
    return check_of([verify.verify_found_step(step, lambda _: None) for step in steps])


def check_of(results: Sequence[VerifyResult]) -> CheckpointCheck:
    """The steps that are good and bad, and what is wrong with the first bad one.

    A step that is not complete is neither: a program passes it over.
    """
    whole = [each for each in results if each.view.state != StepState.PARTIAL]
    bad = [each for each in whole if each.verdict not in GOOD]
    return CheckpointCheck(
        format=FORMATS.get(results[0].view.kind, "") if results else "",
        good_steps=_numbers([each for each in whole if each.verdict in GOOD]),
        bad_steps=_numbers(bad),
        problem=f"{bad[0].view.handle}: {bad[0].why}" if bad else "",
    )


def _numbers(results: Sequence[VerifyResult]) -> tuple[int, ...]:
    return tuple(each.view.step for each in results if each.view.step is not None)


def _leftovers(clients: RunClients) -> Iterator[str]:
    """What costs money and is there, as a list of the whole cloud shows it."""
    for node in clients.tpu.list_nodes()[0]:
        yield f"node {node.zone}/{node.name} {node.state}"
    for request in clients.tpu.list_queued_resources()[0]:
        yield f"queued resource {request.zone}/{request.name} {request.state}"
