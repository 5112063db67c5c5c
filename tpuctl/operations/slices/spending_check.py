"""Whether slices that are about to be asked for exceed what the context may cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.config import Context
from tpuctl.errors import RefusedError, TpuctlError
from tpuctl.jobs.interfaces import LimitAnswer, LimitCheck, WantedSlices
from tpuctl.jobs.policy import budget
from tpuctl.jobs.record import record_store
from tpuctl.models.job import JobSpec
from tpuctl.models.limits.slice_lifetime import duration_of, lifetime_of
from tpuctl.models.limits.spending_limit import (
    ContextSpending,
    PricedSlices,
    SpendingLimit,
    excess_text,
    month_start_s,
    raised_limit,
    usd_left,
)
from tpuctl.models.node import JOB_LABEL, LOST_STATES, Node, NodeSpec, NodeState
from tpuctl.models.queued_resource import ENDED_STATES, QueuedResource, QueuedResourceState
from tpuctl.operations.slices import cost
from tpuctl.operations.slices.flex_start import with_flex_start

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.store import Store

UNCOUNTED_NODES = frozenset(
    {NodeState.STOPPED, NodeState.STOPPING, NodeState.DELETING, *LOST_STATES}
)
UNCOUNTED_REQUESTS = frozenset(
    {QueuedResourceState.DELETING, QueuedResourceState.SUSPENDING, *ENDED_STATES}
)


MonthTotal = Callable[[float, float], float]
"""(since, until), in seconds since 1970 -> USD that all slices of the context cost in that time."""


class Commitments(NamedTuple):
    """What runs or was asked for: with a price, and the number of slices without one."""

    slices: tuple[PricedSlices, ...]
    unpriced: int


def limit_of(context: Context) -> SpendingLimit:
    """What the slices of a context may cost."""
    return SpendingLimit(context.name, context.max_usd_per_hour, context.max_usd_per_month)


def read_spending(  # noqa: PLR0913 (whose slices, and by whose clock)
    api: TpuApi,
    store: Callable[[], Store],
    now_s: float,
    *,
    month_total: MonthTotal,
    with_month: bool,
    without: frozenset[str] = frozenset(),
) -> ContextSpending:
    """What a context spends now; the names of `without` are not counted in what runs."""
    found, _ = api.read_nodes()
    asked, _ = api.list_queued_resources()
    nodes = [each for each in with_flex_start(api, found) if each.name not in without]
    requests = [each for each in with_flex_start(api, asked) if each.name not in without]
    most = _remaining_budgets(store, nodes, now_s) if with_month else {}
    committed = commitments(nodes, requests, now_s, most)
    month_usd = month_total(month_start_s(now_s), now_s) if with_month else 0.0
    return ContextSpending(now_s, committed.slices, committed.unpriced, month_usd)


def commitments(
    nodes: Sequence[Node],
    requests: Sequence[QueuedResource],
    now_s: float,
    most_usd: Mapping[str, float],
) -> Commitments:
    """What nodes cost that are billed or will be, and the nodes that requests still wait for.

    `most_usd` is what the slices of a job may cost from now on, by its id.
    """
    slices, unpriced = [], 0
    for usd, count, end_s, job_id in [*_of_nodes(nodes), *_of_requests(nodes, requests, now_s)]:
        if usd is None:
            unpriced += count
        else:
            slices.append(PricedSlices(usd * count, end_s, most_usd.get(job_id)))
    return Commitments(tuple(slices), unpriced)


def limit_check(
    context: Context,
    api: Callable[[], TpuApi],
    store: Callable[[], Store],
    now: Callable[[], float],
    month_total: MonthTotal,
) -> LimitCheck | None:
    """What tells whether slices exceed a limit of the context; None where it has none."""
    limit = limit_of(context)
    if not limit.is_set:
        return None

    def check(wanted: Sequence[WantedSlices]) -> list[LimitAnswer]:
        spent = read_spending(
            api(),
            store,
            now(),
            month_total=month_total,
            with_month=limit.max_usd_per_month is not None,
            without=frozenset(name for each in wanted for name in each.own_names),
        )
        return [_answer(limit, spent, each) for each in wanted]

    return check


def require_within_limit(
    check: LimitCheck | None, wanted: WantedSlices, what: str, *, over_budget: bool
) -> str | None:
    """Refuse slices that exceed a limit of the context, unless somebody insists.

    Returns a warning where that cannot be told, because no price is known. Raises RefusedError.
    """
    if check is None or over_budget:
        return None
    if wanted.usd_per_hour is None:
        return f"no price of {what} is known: no limit of the context counts it"
    (answer,) = check([wanted])
    if answer.excess:
        raise RefusedError(f"{what}: {answer.excess}", hint=answer.hint)
    return None


def most_usd(spec: JobSpec, usd_per_hour: float | None) -> float | None:
    """What the slices of a job cost at most by its timeouts, budget and TTL, where these say it.

    `timeouts.run` counts from the first start on; before it there is the setup of one attempt.
    """
    hours = [] if spec.budget.hours is None else [spec.budget.hours]
    if spec.timeouts.run_s is not None:
        hours.append((spec.timeouts.setup_s + spec.timeouts.run_s) / cost.SECONDS_AN_HOUR)
    if (ttl_s := duration_of(spec.resources.options.labels)) is not None:
        hours.append(ttl_s / cost.SECONDS_AN_HOUR)
    limits = [] if spec.budget.usd is None else [spec.budget.usd]
    if usd_per_hour is not None:
        limits += [each * usd_per_hour for each in hours]
    return min(limits, default=None)


def wanted_slices(
    spec: NodeSpec | Node | QueuedResource, count: int, own_names: Sequence[str]
) -> WantedSlices:
    """`count` slices like `spec`, in place of those of `own_names`."""
    usd = cost.usd_per_hour(spec.accelerator_type, spec.zone, spec.provisioning)
    total_usd = None if usd is None else usd * count
    return WantedSlices(total_usd, duration_of(spec.labels), None, frozenset(own_names))


def _answer(limit: SpendingLimit, spent: ContextSpending, wanted: WantedSlices) -> LimitAnswer:
    if wanted.usd_per_hour is None:
        return LimitAnswer("", "", None)
    end_s = None if wanted.lasts_s is None else spent.now_s + wanted.lasts_s
    new = PricedSlices(wanted.usd_per_hour, end_s, wanted.most_usd)
    raised = raised_limit(limit, spent, [new])
    hint = f"add --over-budget, or raise the limit: tpuctl context budget {limit.context} {raised}"
    return LimitAnswer(excess_text(limit, spent, new) or "", hint, usd_left(limit, spent))


Commitment = tuple[float | None, int, float | None, str]
"""USD per hour of one, how many, when they surely end, and the job that has them."""


def _of_nodes(nodes: Iterable[Node]) -> Iterator[Commitment]:
    for node in nodes:
        if node.state not in UNCOUNTED_NODES:
            usd = cost.usd_per_hour(node.accelerator_type, node.zone, node.provisioning)
            end_s = lifetime_of(node.labels, node.created_s).expires_s
            yield usd, 1, end_s, node.labels.get(JOB_LABEL, "")


def _of_requests(
    nodes: Sequence[Node], requests: Iterable[QueuedResource], now_s: float
) -> Iterator[Commitment]:
    """The nodes that requests still wait for: their TTL has not begun."""
    for request in requests:
        there = sum((node.zone, node.queued_resource) == (request.zone, request.name)
                    for node in nodes)  # fmt: skip
        missing = request.node_count - there
        if request.state not in UNCOUNTED_REQUESTS and missing > 0:
            usd = cost.usd_per_hour(request.accelerator_type, request.zone, request.provisioning)
            ttl_s = duration_of(request.labels)
            end_s = None if ttl_s is None else now_s + ttl_s
            yield usd, missing, end_s, request.labels.get(JOB_LABEL, "")


def _remaining_budgets(
    store: Callable[[], Store], nodes: Iterable[Node], now_s: float
) -> dict[str, float]:
    """What the slices of each running job with a budget may cost from now on."""
    found: dict[str, float] = {}
    for job_id in sorted({node.labels.get(JOB_LABEL, "") for node in nodes} - {""}):
        with suppress(TpuctlError):  # then it is as a job without a budget
            usd = budget.remaining_usd(record_store.load(store(), job_id).record, now_s)
            if usd is not None:
                found[job_id] = usd
    return found
