"""A request for slices, checked before anything is asked of the API."""

from tpuctl import catalog
from tpuctl.errors import UsageError
from tpuctl.models.queued_resource import QueuedResourceSpec
from tpuctl.operations.slices.specs import check_name

LEAST_NODES = 2
MOST_RUN_S = 7 * 86400.0
"""Flex-start slices live for a week at most."""


def check_request(spec: QueuedResourceSpec, now_s: float) -> QueuedResourceSpec:
    """The request itself if it is valid; raises UsageError."""
    if spec.node_count is not None:
        _check_multislice(spec, spec.node_count)
    if spec.max_run_duration_s is not None and not 0 < spec.max_run_duration_s <= MOST_RUN_S:
        raise UsageError(
            "--max-run-duration must be more than nothing and at most 7 days",
            hint="write it as 90m, 24h or 7d",
        )
    _check_window(spec, now_s)
    return spec


def _check_multislice(spec: QueuedResourceSpec, count: int) -> None:
    if count < LEAST_NODES:
        raise UsageError(
            f"--node-count must be greater than 1, not {count}", hint="leave it out for one node"
        )
    kind = catalog.accelerator_type(spec.node.accelerator_type)
    if not catalog.generation(kind.generation).multislice:
        raise UsageError(
            f"{kind.name} cannot be part of a multislice",
            hint="take v4 or newer: tpuctl catalog types",
        )
    check_name(f"{spec.node.name}-{count - 1}")


def _check_window(spec: QueuedResourceSpec, now_s: float) -> None:
    queueing = spec.queueing
    until_s = queueing.until_s
    if queueing.until_duration_s is not None:
        until_s = now_s + queueing.until_duration_s
    if until_s is not None and until_s <= now_s:
        raise UsageError("the request would end before it begins", hint="choose a later time")
    both = queueing.interval(now_s)
    if both is not None and both[0] >= both[1]:
        raise UsageError(
            "the request would end before it may be granted",
            hint="let --valid-until-... be later than --valid-after-...",
        )
