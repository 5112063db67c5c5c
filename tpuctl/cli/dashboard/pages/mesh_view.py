"""The chips of slices as their meshes: a square for each chip, coloured by a metric."""

from collections.abc import Sequence
from typing import NamedTuple

from tpuctl import catalog
from tpuctl.cli.dashboard.page import heading
from tpuctl.cli.shell.metric_view import chips_text
from tpuctl.cli.top.mesh import chip_places, mesh_size
from tpuctl.cli.top.worker_row import MESH_METRICS, WorkerRow, chip_shares
from tpuctl.cli.web.html import Child, Html, tag
from tpuctl.cli.web.palette import HEAT_LEVELS
from tpuctl.metrics.chip_state import ChipState
from tpuctl.operations.metrics.watched_slice import WatchedSlice

SIDE = 34
GAP = 4
PLANE_GAP = 20
"""Between the planes of a third axis, which stand side by side."""
SIGNS = {ChipState.HELD: "held", ChipState.FREE: "free", ChipState.SILENT: "?"}
"""In the square of a chip that no number is known of; None of a worker that was never measured."""


class ChipCell(NamedTuple):
    """One chip at a moment."""

    worker_id: int
    chip: int
    share: float | None
    """From 0 to 1; None where it is not known."""
    state: str
    """`busy 83 %`, `held, no program loaded`, `no answer since 12 s`, …"""
    sign: str


def mesh_section(watched: WatchedSlice, rows: Sequence[WorkerRow], metric: str) -> Html:
    """The meshes of all slices, with links that choose the metric; empty before any answer."""
    if not watched.workers:
        return Html("")
    kind = catalog.accelerator_type(watched.accelerator_type)
    by_id = {row.worker.worker_id: row for row in rows}
    count = max(kind.workers, max(by_id) + 1)
    cells = [
        _cells(by_id.get(number), number, kind.chips_per_worker, metric) for number in range(count)
    ]
    slices = [cells[first : first + kind.workers] for first in range(0, count, kind.workers)]
    return heading(
        f"Chips, {kind.topology}",
        tag("p", "Coloured by ", _choices(metric)),
        tag("p", _legend(), class_="muted"),
        [
            tag("div", _mesh(mesh_size(kind.topology), each), class_="mesh", tabindex=0)
            for each in slices
        ],
    )


def _choices(chosen: str) -> Child:
    """Links to the same page with another metric."""
    links = [
        tag(
            "a",
            name,
            href=f"?mesh={name.replace(' ', '+')}",
            aria_current=name == chosen and "true",
        )
        for name in MESH_METRICS
    ]
    return [[each, " "] for each in links]


def _legend() -> Child:
    squares = [
        tag("svg", tag("rect", width=10, height=10, class_=f"heat-{level}"), viewBox="0 0 10 10",
            class_="swatch", aria_hidden="true")
        for level in range(HEAT_LEVELS)
    ]  # fmt: skip
    return ["0 % ", squares, " 100 %; held: a process has them, no program is loaded; ?: no answer"]


def _cells(row: WorkerRow | None, worker_id: int, chips: int, metric: str) -> list[ChipCell]:
    if row is None or row.use is None:
        return [ChipCell(worker_id, chip, None, "not measured yet", "") for chip in range(chips)]
    shares = chip_shares(row, MESH_METRICS[metric])
    sign = SIGNS.get(row.use.state, "")
    return [
        ChipCell(worker_id, chip, share, chips_text(row.use), sign)
        for chip, share in enumerate(shares)
    ]


def _mesh(size: tuple[int, int, int], workers: Sequence[Sequence[ChipCell]]) -> Html:
    """A mesh: its first axis across, its second down, the planes of a third side by side."""
    width, height, depth = size
    plane = width * (SIDE + GAP) + PLANE_GAP
    squares = [
        _square(cell, z * plane + x * (SIDE + GAP), y * (SIDE + GAP))
        for (x, y, z), cell in sorted(chip_places(size, workers).items())
    ]
    full_width, full_height = depth * plane - PLANE_GAP, height * (SIDE + GAP)
    return tag(
        "svg", squares, role="img", aria_label=_words(workers), width=full_width,
        viewBox=f"-1 -1 {full_width + 1} {full_height + 1}",
    )  # fmt: skip


def _square(cell: ChipCell, x: int, y: int) -> Html:
    level = None if cell.share is None else level_of(cell.share)
    kind = f"heat-{level}" if level is not None else "unknown"
    number = cell.sign if cell.share is None else f"{100 * cell.share:.0f}"
    middle = SIDE / 2
    return tag(
        "g",
        tag("title", f"worker {cell.worker_id} chip {cell.chip}: {cell.state}"),
        tag("rect", width=SIDE, height=SIDE, rx=3, class_=f"chip {kind}"),
        tag("text", number, x=middle, y=middle + 4, class_=f"chip-text {kind}"),
        transform=f"translate({x} {y})",
    )


def level_of(share: float) -> int:
    """The level of a share from 0 to 1, from 0 for the lowest."""
    return min(HEAT_LEVELS - 1, int(min(1.0, max(0.0, share)) * HEAT_LEVELS))


def _words(workers: Sequence[Sequence[ChipCell]]) -> str:
    """The state of each worker's chips, for those who do not see the picture."""
    return "; ".join(f"worker {cells[0].worker_id}: {cells[0].state}" for cells in workers if cells)
