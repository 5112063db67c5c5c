"""Which columns of a table a window has room for, and how wide each of them is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

GAP = 2
TEXT_WIDTH = 16
"""A column of text is not shortened below this many cells; it leaves instead. Nor does a column of
names become narrower."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The width of each column that fits, in their order, and the columns that do not."""

    widths: Mapping[str, int]
    left_out: Sequence[str]


def fit_columns(
    natural: Mapping[str, int], window: int, *, text: Iterable[str] = (), least: Sequence[str] = ()
) -> Fitted:
    """Fit columns of the widths `natural`, heading included, into a window.

    Columns of `least` leave first, in that order. Before any other one leaves, a first column of
    more than half of the window becomes narrower, and its cells that are wider get lines of their
    own; then the others leave from the right. The first column stays. Only columns of `text` may be
    shortened, the others are whole or absent.
    """
    shortened = {key: min(natural[key], TEXT_WIDTH) for key in text if key in natural}
    kept = {**natural, **shortened}
    first, *others = natural
    _remove(kept, [key for key in least if key in others], window)
    growing = list(shortened)
    if _total(kept) > window and natural[first] > window // 2:
        kept[first] = min(natural[first], TEXT_WIDTH)
        growing.insert(0, first)
    _remove(kept, others[::-1], window)
    if list(kept) == [first]:
        kept[first] = natural[first]
    spare = window - _total(kept)
    for key in growing:
        if key in kept and spare > 0:
            more = min(spare, natural[key] - kept[key])
            kept[key] += more
            spare -= more
    return Fitted(kept, [key for key in natural if key not in kept])


def _remove(kept: dict[str, int], leaving: Iterable[str], window: int) -> None:
    """Remove columns, in that order, until the others fit."""
    for key in leaving:
        if _total(kept) <= window:
            break
        kept.pop(key, None)


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * max(len(widths) - 1, 0)
