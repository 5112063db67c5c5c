"""What all slices of a context cost in a time, such as the month so far."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.models.money.cost_pieces import cost_pieces
from tpuctl.operations.cost.cost_history import read_history
from tpuctl.operations.slices import cost
from tpuctl.store import Store

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi


def usd_between(  # noqa: PLR0913 (whose slices, and from when to when)
    api: TpuApi,
    store: Store,
    since_s: float,
    until_s: float,
    *,
    home: Path,
    now: Callable[[], float],
) -> float:
    """USD that all slices cost from `since_s` to `until_s` (seconds since 1970), as far as known.

    Slices without a known price are not in it.
    """
    history = read_history(api, store, home, now)
    pieces = cost_pieces(history.lives, cost.price_book(), since_s, until_s)
    return sum(piece.usd() or 0.0 for piece in pieces)
