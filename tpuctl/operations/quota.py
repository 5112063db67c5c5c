"""Who holds the quota that a refusal says is used up, and the command that frees it.

Preempted nodes and suspended or failed requests hold it until they are deleted; nothing in the API
tells how much is in use, so it is counted from the lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl import catalog
from tpuctl.api.explain import QuotaError
from tpuctl.errors import TpuctlError
from tpuctl.models.node import LOST_STATES, ListedNode, Provisioning
from tpuctl.models.queued_resource import ENDED_STATES, QueuedResource

if TYPE_CHECKING:
    from tpuctl.api.tpu import TpuApi

MOST_NAMED = 4
DEAD_STATES = LOST_STATES | ENDED_STATES
COUNTED_IN_CHIPS = frozenset({"v5e", "v6e"})
COUNTED_BY_SIZE = frozenset({"v2", "v3", "v5e"})
"""Slices of one worker have a quota apart from pods."""
PREEMPTIBLE = frozenset({Provisioning.SPOT, Provisioning.BEST_EFFORT})
MORE = "ask for more quota (console: IAM & Admin > Quotas), or for a smaller type or another --zone"
ADDRESSES = "IN_USE_ADDRESSES"
_LIMIT = re.compile(r"[Ll]imit:? (\d+)")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for when the quota was found used up."""

    accelerator_type: str
    zone: str
    provisioning: str

    @property
    def pool(self) -> tuple[str, str, str] | None:
        """Slices that share a quota: generation, tier and, where it counts, size.

        None for what draws on none of them, or is not known.
        """
        try:
            kind = catalog.accelerator_type(self.accelerator_type)
        except catalog.UnknownError:
            return None
        if self.provisioning == Provisioning.RESERVED:
            return None
        tier = "preemptible" if self.provisioning in PREEMPTIBLE else "on-demand"
        return kind.generation, tier, kind.size if kind.generation in COUNTED_BY_SIZE else ""


@dataclass(frozen=True, slots=True)
class Holder:
    """A node, or a request without nodes, that uses quota."""

    noun: str
    name: str
    slices: Wanted
    state: str
    amount: int
    """Chips or TensorCores, whichever the quota counts."""

    @property
    def is_dead(self) -> bool:
        """Whether it holds quota for nothing."""
        return self.state in DEAD_STATES

    @property
    def delete_command(self) -> str:
        """What frees its quota."""
        return f"tpuctl {self.noun} delete {self.name} --zone {self.slices.zone}"


@contextmanager
def holders_named(api: TpuApi, wanted: Wanted) -> Iterator[None]:
    """Complete a refusal for want of quota: limit, usage, who holds it, what to delete."""
    try:
        yield
    except QuotaError as error:
        if ADDRESSES in str(error):
            raise
        try:
            found = holders(api, wanted, location=_location(str(error), wanted.zone))
        except TpuctlError:
            raise error from None  # what could not be listed shall not hide the refusal
        raise _completed(error, found, wanted) from error


def holders(api: TpuApi, wanted: Wanted, *, location: str) -> list[Holder]:
    """Everything in the zone or region that draws on the same quota, the dead first."""
    nodes, _ = api.list_nodes()
    requests, _ = api.list_queued_resources()
    shown = {(node.zone, node.name) for node in nodes}
    found = [_holder("node", node, 1) for node in nodes]
    for request in requests:
        there = sum((request.zone, name) in shown for name in request.node_names)
        never_had_any = "quota" in (request.failure or "").lower()
        if request.state in ENDED_STATES and there < request.node_count and not never_had_any:
            found.append(_holder("qr", request, request.node_count - there))
    held = [
        each
        for each in found
        if location in (each.slices.zone, _region(each.slices.zone))
        and each.slices.pool == wanted.pool is not None
    ]
    return sorted(held, key=lambda each: (not each.is_dead, each.slices.zone, each.name))


def _holder(noun: str, found: ListedNode | QueuedResource, count: int) -> Holder:
    slices = Wanted(found.accelerator_type, found.zone, found.provisioning)
    return Holder(noun, found.name, slices, found.state, count * _amount(found.accelerator_type))


def _completed(error: QuotaError, found: list[Holder], wanted: Wanted) -> QuotaError:
    limit = _LIMIT.search(str(error))
    if not found:
        return QuotaError(str(error), hint=MORE if limit else error.hint)
    generation = catalog.accelerator_type(wanted.accelerator_type).generation
    unit = "chips" if generation in COUNTED_IN_CHIPS else "TensorCores"
    usage = sum(each.amount for each in found)
    of_limit = f" of {limit.group(1)}" if limit else ""
    named = ", ".join(
        f"{each.noun} {each.name!r} ({each.amount}, {each.state})" for each in found[:MOST_NAMED]
    )
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return QuotaError(
        f"{error} ({usage}{of_limit} {unit} in use: {named}{more})",
        hint=f"free some: {found[0].delete_command}",
    )


def _location(message: str, zone: str) -> str:
    """A quota of a zone says so; every other one counts in the region."""
    return zone if "PerZone" in message else _region(zone)


def _region(zone: str) -> str:
    return zone.rpartition("-")[0]


def _amount(accelerator_type: str) -> int:
    try:
        kind = catalog.accelerator_type(accelerator_type)
    except catalog.UnknownError:
        return 0
    return kind.chips if kind.generation in COUNTED_IN_CHIPS else kind.tensorcores
