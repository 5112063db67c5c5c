"""Which slices are flex-start: in every typed message they look like on demand, at twice the price.

What is asked for by name (a node) cannot be flex-start; what a queued resource asked for can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tpuctl.errors import TpuctlError
from tpuctl.models.node import ListedNode, Node, Provisioning
from tpuctl.models.queued_resource import QueuedResource

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi

Slice = TypeVar("Slice", Node, ListedNode, QueuedResource)


def with_flex_start(api: TpuApi, slices: Sequence[Slice]) -> list[Slice]:
    """The items with FLEX_START as provisioning where they are, and UNKNOWN where unclear."""
    unsure = [each for each in slices if _may_be_flex_start(each)]
    if not unsure:
        return list(slices)
    zones = {each.zone for each in unsure}
    flex_starts = _flex_starts(api, zones.pop() if len(zones) == 1 else "-")

    def known(each: Slice) -> Slice:
        if not _may_be_flex_start(each):
            return each
        if flex_starts is None:
            return replace(each, provisioning=Provisioning.UNKNOWN)
        is_one = (each.zone, _request_of(each)) in flex_starts
        return replace(each, provisioning=Provisioning.FLEX_START) if is_one else each

    return [known(each) for each in slices]


def _may_be_flex_start(item: Node | ListedNode | QueuedResource) -> bool:
    return item.provisioning == Provisioning.ON_DEMAND and _request_of(item) is not None


def _request_of(item: Node | ListedNode | QueuedResource) -> str | None:
    return item.name if isinstance(item, QueuedResource) else item.queued_resource


def _flex_starts(api: TpuApi, zone: str) -> frozenset[tuple[str, str]] | None:
    try:
        return api.flex_starts(zone)
    except TpuctlError:  # what was found shall be shown all the same
        return None
