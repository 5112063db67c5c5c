"""Who holds the quota that a refusal says is used up, and the command that frees it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpuctl.api.tpu.explain import QuotaError
from tpuctl.errors import TpuctlError
from tpuctl.models.quota_holders import (
    QuotaDemand,
    QuotaHolder,
    holders,
    quota_amount,
    region_of,
    unit_of,
)

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
            nodes, _ = api.list_nodes()
            requests, _ = api.list_queued_resources()
        except TpuctlError:
            raise error from None  # what could not be listed shall not hide the refusal
        # A quota of a zone says so; every other one counts in the region.
        location = wanted.zone if "PerZone" in str(error) else region_of(wanted.zone)
        holding = holders(nodes, requests, wanted, location=location)
        raise _completed_error(error, holding, wanted) from error


def _completed_error(
    error: QuotaError, holding: list[QuotaHolder], wanted: QuotaDemand
) -> QuotaError:
    limit = _LIMIT.search(str(error))
    if not holding:
        return QuotaError(str(error), hint=MORE_QUOTA_HINT if limit else error.hint)
    unit = unit_of(wanted.accelerator_type)
    usage = sum(holder.amount for holder in holding)
    of_limit = f" of {limit.group(1)}" if limit else ""
    named = ", ".join(
        f"{holder.noun} {holder.name!r} ({holder.amount}, {holder.state})"
        for holder in holding[:MOST_NAMED]
    )
    more = f" and {len(holding) - MOST_NAMED} more" if len(holding) > MOST_NAMED else ""
    return QuotaError(
        f"{error} ({usage}{of_limit} {unit} in use: {named}{more})",
        hint=f"free some: {holding[0].delete_command}",
    )
