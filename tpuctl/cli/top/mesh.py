"""The chips of a slice as its mesh: a cell for each chip, as high as a value from 0 to 1."""

from collections.abc import Sequence
from itertools import product
from typing import TypeVar

from rich.style import Style
from rich.text import Text

LEVELS = "▁▂▃▄▅▆▇█"
UNKNOWN = "·"
HOST_SHAPES = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
"""Chips of a worker -> how they lie in the mesh (the host bounds that libtpu reports)."""
COLORS = ("#2b6cb0", "#2f9e8f", "#8fae3a", "#d9a022", "#d9622b")
"""From idle to busy; the height of the bar says the same."""
T = TypeVar("T")
Shares = Sequence[Sequence[float | None]]
"""By worker and chip: 0 to 1, None where it is not known."""


def mesh_text(topology: str, shares: Shares) -> Text:
    """The mesh, its first axis across, its second down; planes of a third stand side by side.

    Empty for a topology whose chips are not those of the workers.
    """
    width, height, depth = mesh_size(topology)
    cells = chip_places((width, height, depth), shares)
    text = Text()
    for y in range(height):
        for z in range(depth):
            for x in range(width):
                text.append_text(_cell(cells.get((x, y, z))))
            text.append("  " if z < depth - 1 else "\n")
    return text


def mesh_size(topology: str) -> tuple[int, int, int]:
    """The chips along each axis of `4x4` or `2x2x4`."""
    axes = [int(part) for part in topology.split("x")]
    width, height, depth = (*axes, 1, 1)[:3]
    return width, height, depth


def chip_places(
    size: tuple[int, int, int], workers: Sequence[Sequence[T]]
) -> dict[tuple[int, int, int], T]:
    """What each chip of each worker has, by its place in a mesh of that size.

    Workers follow each other along the first axis first.
    """
    found: dict[tuple[int, int, int], T] = {}
    shape = HOST_SHAPES.get(max(map(len, workers), default=0), (1, 1, 1))
    hosts = [max(1, length // block) for length, block in zip(size, shape, strict=True)]
    places = [(x, y, z) for z, y, x in product(*(range(count) for count in reversed(hosts)))]
    for place, chips in zip(places, workers, strict=False):
        corner = [index * block for index, block in zip(place, shape, strict=True)]
        inner = [(x, y, z) for z, y, x in product(*(range(block) for block in reversed(shape)))]
        for offset, chip in zip(inner, chips, strict=False):
            at = (corner[0] + offset[0], corner[1] + offset[1], corner[2] + offset[2])
            found[at] = chip
    return found


def _cell(share: float | None) -> Text:
    if share is None:
        return Text(UNKNOWN * 2 + " ", style="dim")
    bounded = min(1.0, max(0.0, share))
    level = LEVELS[min(len(LEVELS) - 1, int(bounded * len(LEVELS)))]
    color = COLORS[min(len(COLORS) - 1, int(bounded * len(COLORS)))]
    return Text(level * 2 + " ", style=Style(color=color))


def sparkline(values: Sequence[float], most: float, width: int) -> str:
    """The newest values as bars from 0 to `most`."""
    shown = values[-width:]
    scale = (len(LEVELS) - 1) / most if most > 0 else 0.0
    return "".join(LEVELS[min(len(LEVELS) - 1, round(value * scale))] for value in shown)
