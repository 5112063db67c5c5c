"""Jobs in words of one line: a record, what is seen of the world, and what follows."""

from dataclasses import replace

from tpuctl.jobs.policy.observation import JobObservation
from tpuctl.jobs.policy.reconcile import ReconcileStep, reconcile
from tpuctl.models.job import JobRecord, JobSpec, Phase, Resources, WorkerReport

SPEC = JobSpec(name="digits", run="true", resources=Resources("v5litepod-16"))
A1, A2 = "digits-a1b2c3-a1", "digits-a1b2c3-a2"
ENDED = {"phase": Phase.ENDED, "stage": "run", "closed": True}


def job(node: str | None = None, **spec) -> JobRecord:
    return JobRecord(
        job_id="digits-a1b2c3", spec=replace(SPEC, **spec), owner="me", submitted_s=0.0,
        zone="us-west4-a", accelerator_type="v5litepod-16", node=node,
    )  # fmt: skip


def gang(*reports: dict) -> tuple[WorkerReport, ...]:
    return tuple(WorkerReport(worker_id, **report) for worker_id, report in enumerate(reports))


def seen(now_s: float, *reports: dict, node: str | None = "READY", **extra) -> JobObservation:
    extra = {"requests": {A1: "ACTIVE"}, "zone_health": {}, "looked_s": now_s, **extra}
    return JobObservation(
        now_s, node=node, node_checked_s=now_s, worker_count=2, workers=gang(*reports), **extra
    )


def asked(now_s: float, **requests: str) -> JobObservation:
    """A look at the API alone; keys are `a1`, `a2`."""
    names = {f"digits-a1b2c3-{key}": state for key, state in requests.items()}
    return JobObservation(now_s, requests=names, zone_health={}, looked_s=now_s)


def lived(record: JobRecord, *story: JobObservation) -> ReconcileStep:
    step = ReconcileStep(record, ())
    for each in story:
        step = reconcile(step.record, each)
    return step


WAITED = (asked(1.0), seen(2.0))
PREPARED = (*WAITED, seen(3.0, {"phase": Phase.PREPARED}, {"phase": Phase.PREPARED}))
RAN = (*PREPARED, seen(4.0, {"phase": Phase.RUNNING}, {"phase": Phase.RUNNING}))
