"""What is looked at once, when an attempt is about to end: what it saved, what its workers left."""

import re
from dataclasses import replace
from itertools import islice

from tpuctl.errors import TpuctlError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.policy.observation import JobObservation
from tpuctl.jobs.policy.restart import FAILURES, LOSSES
from tpuctl.jobs.slices import slice_api
from tpuctl.models.job import Attempt, AttemptState, JobRecord

MOST_OBJECTS = 20_000
"""A checkpoint directory with more is not looked through: four seconds of listing."""
NO_PROGRESS = re.compile(r"(?:^|/)(?:[A-Z]+_\d{16}|step_\d{12}/(?!COMMIT$))")
"""What every attempt writes before it has saved anything: of our own steps only COMMIT counts."""


def ending_attempt(before: JobRecord, after: JobRecord) -> Attempt | None:
    """The attempt that is ENDED after a step and was not before; None when there is none."""
    for old, new in zip(before.attempts, after.attempts, strict=False):
        if old.state != AttemptState.ENDED and new.state == AttemptState.ENDED:
            return new
    return None


def with_final_state(
    backends: Backends, record: JobRecord, attempt: Attempt, seen: JobObservation
) -> JobObservation:
    """The observation with what decides about an attempt that is about to end like this.

    Raises TransientError and its kin: the attempt is not ended before this is known.
    """
    if attempt.outcome in FAILURES:
        return replace(seen, saved_s=newest_checkpoint_s(backends, record))
    if attempt.outcome in LOSSES:
        return replace(seen, final_reports=slice_api.final_reports(backends.store, record, attempt))
    return seen


def newest_checkpoint_s(backends: Backends, record: JobRecord) -> float | None:
    """When the newest object of the job's checkpoints was written; 0: none; None: not known."""
    kept = record.spec.checkpoints
    if kept is None:
        return 0.0
    if not kept.dir.startswith("gs://"):
        return None
    try:
        found = backends.open_store(kept.dir).list()
        entries = list(islice(found, MOST_OBJECTS + 1))
    except TpuctlError:
        return None
    if len(entries) > MOST_OBJECTS:
        return None
    return max(
        (each.updated_s for each in entries if not NO_PROGRESS.search(each.key)), default=0.0
    )
