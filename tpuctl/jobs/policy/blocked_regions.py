"""Regions where others hold the addresses of a job's slices: no stock-outs, and not for ever."""

from collections.abc import Iterator, Mapping, Sequence

from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord
from tpuctl.models.network_cause import NetworkCause, cause_of
from tpuctl.models.quota_holders import region_of

BLOCK_LIMIT = 8
"""How often a region may lack addresses in a row before it is given up: more than half an hour."""
TEXTS = {
    NetworkCause.ADDRESSES_USED: "others hold its external addresses",
    NetworkCause.SUBNET_FULL: "the subnet has no addresses left",
}
Blocks = Mapping[str, Sequence[tuple[float, NetworkCause]]]
"""By region: when it lacked addresses since the job had a slice, and which; the newest first."""


def find_blocks(record: JobRecord) -> Blocks:
    """Which regions lacked addresses for the job, when and why."""
    found: dict[str, list[tuple[float, NetworkCause]]] = {}
    for attempt in reversed(record.tries):
        if attempt.ready_s is not None:
            break
        for zone, time_s, refusal in _refusals(attempt):
            cause = cause_of(refusal)
            if cause is not None and cause.may_pass:
                found.setdefault(region_of(zone), []).append((time_s or 0.0, cause))
    return {region: sorted(times, reverse=True) for region, times in found.items()}


def blocks_text(blocks: Blocks) -> Iterator[str]:
    """`us-west4: the subnet has no addresses left, 2 tries`, for each region."""
    for region, times in blocks.items():
        count = f"{len(times)} {'try' if len(times) == 1 else 'tries'}"
        yield f"{region}: {TEXTS[times[0][1]]}, {count}"


def _refusals(attempt: Attempt) -> Iterator[tuple[str, float | None, str]]:
    if attempt.outcome == AttemptOutcome.BLOCKED:
        yield attempt.zone, attempt.ended_s, attempt.refusal
    for other in attempt.others:
        yield other.zone, other.withdrawn_s, other.refusal
