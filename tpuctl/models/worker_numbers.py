"""Workers by their numbers: named in short, and told to programs as variables."""

from collections.abc import Iterable
from dataclasses import dataclass

from tpuctl.models.job import Attempt


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """The place of a worker among those of a job."""

    worker_id: int
    """Its number over all slices."""
    slice_id: int = 0
    index: int = 0
    """Its number within its slice."""


def worker_variables(worker_id: int, count: int) -> dict[str, str]:
    """The variables of the program on one of `count` workers."""
    return {"TPUCTL_WORKER_ID": str(worker_id), "TPUCTL_WORKER_COUNT": str(count)}


def slot_variables(job_id: str, attempt: Attempt, slot: WorkerSlot) -> dict[str, str]:
    """The variables that tell a program which worker of which attempt of a job it runs on."""
    return {
        "TPUCTL_JOB": job_id,
        "TPUCTL_ATTEMPT": str(attempt.number),
        **worker_variables(slot.worker_id, attempt.worker_count),
        "TPUCTL_SLICE_ID": str(slot.slice_id),
        "TPUCTL_SLICE_COUNT": str(attempt.slices),
    }


def format_ranges(worker_ids: Iterable[int]) -> str:
    """The numbers, in order, as `--worker` takes them."""
    runs: list[list[int]] = []
    for number in sorted(set(worker_ids)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
