"""The section `predict` of a job file, and what it becomes: the settings of a batch job."""

import hashlib
import json
from collections.abc import Callable

from tpuctl.errors import UsageError
from tpuctl.jobs.spec.job_file_schema import Document
from tpuctl.models.inference.predict_spec import PredictSpec
from tpuctl.models.job import JobSpec
from tpuctl.serving.batch.batch_settings import SETTINGS, BatchSettings

RUN = "python3 -m tpuctl.serving.batch"
"""What a job with `predict` runs on every worker, unless `run` says how to start it."""
RESTART_EXIT_CODES = (40, 42)
"""Cloud Storage did not answer for minutes: another attempt goes on where this one ended."""


def read_predict(document: Document, expand: Callable[[str], str]) -> PredictSpec | None:
    """The section `predict`, None without one; raises UsageError. `expand` fills in $BUCKET."""
    if "predict" not in document.lines:
        return None
    default = PredictSpec("", "")
    given = document.below("predict")
    if ("program" in given) == ("command" in given):
        what = "both" if "program" in given else "neither"
        raise UsageError(
            f"{document.place('predict')} has {what} of program and command",
            hint="write program: MODULE (load and predict), or command: LINE",
        )
    if "ray" in document.lines and document.get("ray") is not False:
        raise UsageError(
            f"{document.place('predict')} cannot be combined with ray",
            hint="leave ray out: every worker predicts units by itself",
        )
    checkpoint = given.get("checkpoint") or document.get("checkpoints.dir")
    if "step" in given and checkpoint is None:
        raise UsageError(
            f"{document.place('predict.step')} is of no checkpoint",
            hint="write predict.checkpoint: gs://BUCKET/PREFIX",
        )
    return PredictSpec(
        input=expand(given["input"]),
        output=expand(given["output"]).rstrip("/"),
        program=given.get("program"),
        command=given.get("command"),
        format=given.get("format"),
        unit_rows=given.get("unit_rows", default.unit_rows),
        batch=given.get("batch", default.batch),
        checkpoint=expand(checkpoint).rstrip("/") if checkpoint else None,
        step=given.get("step"),
        max_rejects=given.get("max_rejects"),
    )


def predict_environment(spec: JobSpec) -> dict[str, str]:
    """The variable that tells a worker what to predict; none without the section `predict`."""
    if spec.predict is None:
        return {}
    return {SETTINGS: batch_settings(spec, spec.predict).to_json()}


def batch_settings(spec: JobSpec, predict: PredictSpec) -> BatchSettings:
    """The settings of a batch job: the section, and a digest of what else decides its outputs."""
    around = [sorted(spec.envs.items()), spec.image, spec.setup, spec.run]
    return BatchSettings(
        input=predict.input,
        output=predict.output,
        program=predict.program or "",
        command=predict.command or "",
        output_format=predict.format or "",
        unit_rows=predict.unit_rows,
        batch=predict.batch,
        checkpoint=predict.checkpoint or "",
        step=predict.step,
        manifest=predict.manifest,
        environment=hashlib.sha256(json.dumps(around).encode()).hexdigest(),
        max_rejects=predict.max_rejects,
    )
