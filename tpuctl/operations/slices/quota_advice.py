"""Who holds the quota that a refusal says is used up, and the command that frees it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpuctl.api.tpu.explain import QuotaError
from tpuctl.errors import TpuctlError
from tpuctl.models import quota_holders as counting
from tpuctl.models.quota_holders import QuotaDemand, QuotaHolder, quota_amount, region_of, unit_of

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi

MOST_NAMED = 4
MORE_QUOTA_HINT = (
    "ask for more quota (console: IAM & Admin > Quotas), or for a smaller type or another --zone"
)
ADDRESSES = "IN_USE_ADDRESSES"
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
        if ADDRESSES in str(error):
            raise
        try:
            found = quota_holders(api, wanted, location=_location(str(error), wanted.zone))
        except TpuctlError:
            raise error from None  # what could not be listed shall not hide the refusal
        raise _completed_error(error, found, wanted) from error


def quota_holders(api: TpuApi, wanted: QuotaDemand, *, location: str) -> list[QuotaHolder]:
    """All holders of the same quota in the zone or region, the dead ones first."""
    nodes, _ = api.list_nodes()
    requests, _ = api.list_queued_resources()
    return counting.holders(nodes, requests, wanted, location=location)


def _completed_error(
    error: QuotaError, found: list[QuotaHolder], wanted: QuotaDemand
) -> QuotaError:
    limit = _LIMIT.search(str(error))
    if not found:
        return QuotaError(str(error), hint=MORE_QUOTA_HINT if limit else error.hint)
    unit = unit_of(wanted.accelerator_type)
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
    return zone if "PerZone" in message else region_of(zone)
