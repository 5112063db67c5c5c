"""Who holds the quota that a refusal says is used up, and the command that frees it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpuctl.api.tpu.explain import QuotaError
from tpuctl.api.tpu.hints import NODE, QR
from tpuctl.api.tpu.network_errors import AddressLimitError, wanted_addresses
from tpuctl.byte_size import names_text
from tpuctl.errors import CapacityError, TpuctlError
from tpuctl.models.quota_holders import (
    QuotaDemand,
    QuotaHolder,
    holders,
    quota_amount,
    region_of,
    unit_of,
)

if TYPE_CHECKING:
    from tpuctl.api.compute import AddressReader
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.models.node import NodeSpec
    from tpuctl.models.queued_resource import QueuedResourceSpec

MOST_NAMED = 4
MORE_QUOTA_HINT = (
    "ask for more quota (console: IAM & Admin > Quotas), or for a smaller type or another --zone"
)
_LIMIT = re.compile(r"[Ll]imit:? (\d+)")


def quota_text(accelerator_type: str, slices: int) -> str | None:
    """The quota that so many slices use, as `16 chips`; None for an unknown type."""
    taken = slices * quota_amount(accelerator_type)
    return f"{taken} {unit_of(accelerator_type)}" if taken else None


@contextmanager
def name_holders(api: TpuApi, wanted: QuotaDemand) -> Iterator[None]:
    """Add limit, usage, holders and what to delete to an error about quota."""
    try:
        yield
    except QuotaError as error:
        try:
            nodes, _ = api.list_nodes()
            requests, _ = api.list_queued_resources()
        except TpuctlError:
            raise error from None  # what could not be listed shall not hide the refusal
        # A quota of a zone says so; every other one counts in the region.
        location = wanted.zone if "PerZone" in str(error) else region_of(wanted.zone)
        holding = holders(nodes, requests, wanted, location=location)
        raise _completed_error(error, holding, wanted) from error


def require_addresses(api: TpuApi, read: AddressReader | None, spec: NodeSpec) -> None:
    """Raise CapacityError for a node that its region has too few external addresses left for."""
    shortage = _address_shortage(api, read, NODE, spec.name, spec, 1)
    if shortage is not None:
        raise shortage


def check_addresses(
    api: TpuApi, read: AddressReader | None, spec: QueuedResourceSpec
) -> str | None:
    """A warning where others hold the external addresses that a request needs; else None.

    Raises AddressLimitError for a request that its region never has enough of them for.
    """
    shortage = _address_shortage(api, read, QR, spec.name, spec.node, spec.node_count or 1)
    if isinstance(shortage, AddressLimitError):
        raise shortage
    return None if shortage is None else f"{shortage}; {shortage.hint}"


def _address_shortage(
    api: TpuApi, read: AddressReader | None, noun: str, name: str, spec: NodeSpec, slices: int
) -> CapacityError | None:
    """The error for slices that the region has too few external addresses left for, if so.

    None as well where the quota cannot be read, and where `name` exists and has its addresses.
    """
    wanted = wanted_addresses(spec.accelerator_type, slices)
    if spec.internal_ips or not wanted or read is None:
        return None
    try:
        quota = read(region_of(spec.zone))
    except TpuctlError:
        return None
    found = quota.shortage(wanted, api.about_creation(noun, name, spec, slices))
    return None if found is None or _exists(api, noun, spec.zone, name) else found


def _exists(api: TpuApi, noun: str, zone: str, name: str) -> bool:
    try:
        (api.get_queued_resource if noun == QR else api.get_node)(zone, name)
    except TpuctlError:
        return False
    return True


def _completed_error(
    error: QuotaError, holding: list[QuotaHolder], wanted: QuotaDemand
) -> QuotaError:
    limit = _LIMIT.search(str(error))
    if not holding:
        return QuotaError(str(error), hint=MORE_QUOTA_HINT if limit else error.hint)
    unit = unit_of(wanted.accelerator_type)
    usage = sum(holder.amount for holder in holding)
    of_limit = f" of {limit.group(1)}" if limit else ""
    held = [f"{each.noun} {each.name!r} ({each.amount}, {each.state})" for each in holding]
    return QuotaError(
        f"{error} ({usage}{of_limit} {unit} in use: {names_text(held, MOST_NAMED)})",
        hint=f"free some: {holding[0].delete_command}",
    )
