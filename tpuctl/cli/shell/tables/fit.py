"""Which columns of a table a window has room for, and how wide each of them is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

GAP = 2
TEXT_WIDTH = 16
"""A column of text is not shortened below this many cells; it leaves instead."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The width of each column that fits, in their order, and the columns that do not."""

    widths: Mapping[str, int]
    left_out: Sequence[str]


def fit_columns(
    natural: Mapping[str, int], window: int, *, text: Iterable[str] = (), least: Sequence[str] = ()
) -> Fitted:
    """Fit columns of the widths `natural`, heading included, into a window.

    Columns of `least` leave first, in that order, then the others from the right; the first column
    stays whatever its width is. Only columns of `text` may get less than their natural width, the
    others are whole or absent.
    """
    shortened = {key: min(natural[key], TEXT_WIDTH) for key in text if key in natural}
    kept = {**natural, **shortened}
    leaving = [*(key for key in least if key in natural), *reversed(list(natural))]
    first = next(iter(natural), None)
    for key in leaving:
        if _total(kept) <= window:
            break
        if key != first:
            kept.pop(key, None)
    spare = window - _total(kept)
    for key in shortened:
        if key in kept and spare > 0:
            more = min(spare, natural[key] - kept[key])
            kept[key] += more
            spare -= more
    return Fitted(kept, [key for key in natural if key not in kept])


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * max(len(widths) - 1, 0)
