"""Axes with logarithmic scales whose ticks are plain numbers: `256` and `200,000`, not powers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

GRID_COLOUR = "#e4e4e4"
DIGITS_OF_DECADES = ((1.2, (1, 1.5, 2, 3, 4, 5, 7)), (2.5, (1, 2, 5)))
"""An axis of at most so many decades has a number at each of these digits; a longer one at 1."""


def set_log_axes(axes: Axes, *, is_x_binary: bool = False) -> None:
    """Scale both axes by logarithms, the horizontal one by those to 2, after all is drawn."""
    axes.set_xscale("log", base=2 if is_x_binary else 10)
    axes.set_yscale("log")
    if is_x_binary:
        axes.xaxis.set_major_formatter(lambda value, _: number_text(value))
    else:
        _label(axes.xaxis, *axes.get_xlim())
    _label(axes.yaxis, *axes.get_ylim())
    axes.grid(visible=True, which="both", color=GRID_COLOUR, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)


def _label(axis: Axis, low: float, high: float) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=labelled_digits(low, high)))
    axis.set_major_formatter(lambda value, _: number_text(value))
    axis.set_minor_formatter(NullFormatter())


def labelled_digits(low: float, high: float) -> tuple[float, ...]:
    """The first digits of the numbers that stand at an axis from `low` to `high`."""
    decades = math.log10(high / low)
    return next((digits for most, digits in DIGITS_OF_DECADES if decades <= most), (1.0,))


def number_text(value: float) -> str:
    """`0.5`, `256`, `200,000`."""
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"  # noqa: PLR2004 (whole from here on)
