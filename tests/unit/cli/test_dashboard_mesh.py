"""The chips of a slice on a page: in which state each is, never a false 0."""

import re

import pytest

from tpuctl.cli.dashboard.pages.mesh_view import level_of, mesh_section
from tpuctl.cli.top.worker_row import worker_rows
from tpuctl.metrics.samples import Sample
from tpuctl.models.node import Node
from tpuctl.operations.metrics.watched_slice import WatchedSlice

NOW_S = 1_800_000_000.0
NODE = Node("n1", "us-west4-a", 4711, "v5litepod-16", "v2-alpha", "READY", "spot", NOW_S)
BUSY = {f"chip.duty_cycle_percent/{chip}": 83.0 for chip in range(4)} | {"chip.held": 1.0}
MEMORY = {f"chip.hbm_used_bytes/{chip}": 4.0 for chip in range(4)} | {
    f"chip.hbm_total_bytes/{chip}": 16.0 for chip in range(4)
}


@pytest.fixture
def section():
    """`section(metric)` is that of four workers: busy, held, silent, and one not yet measured."""
    watched = WatchedSlice("n1", node=NODE)
    samples = {0: ({**BUSY, **MEMORY}, 1), 1: ({"chip.held": 1.0}, 1), 2: (BUSY, 12)}
    for number, (values, age_s) in samples.items():
        watched.worker(number).take_sample(Sample(NOW_S - age_s, values), 0.0)
    rows = worker_rows(watched, NOW_S, 0.0)
    return lambda metric: mesh_section(watched, rows, metric)


def squares(html: str) -> dict[str, str]:
    """What stands in the square at each corner of the mesh."""
    pattern = r'<g transform="translate\((\d+ \d+)\)">.*?<text [^>]*>(.*?)</text></g>'
    return dict(re.findall(pattern, html))


def test_each_chip_is_busy_held_silent_or_not_measured(section):
    html = section("duty cycle")
    found = squares(html)
    assert len(found) == 16
    assert [found[at] for at in ("0 0", "76 0", "0 76", "76 76")] == ["83", "held", "?", ""]
    assert re.search('aria-label="(.*?)"', html)[1] == (
        "worker 0: busy 83 %; worker 1: held, no program loaded; "
        "worker 2: no answer since 12 s; worker 3: not measured yet"
    )
    assert "<title>worker 2 chip 3: no answer since 12 s</title>" in html


def test_another_metric_is_a_link_away(section):
    assert 'href="?mesh=HBM"' in section("duty cycle")
    assert squares(section("HBM"))["0 0"] == "25"


def test_a_share_has_one_of_five_levels():
    assert [level_of(share) for share in (-0.1, 0, 0.19, 0.2, 0.99, 1, 1.5)] == [
        0, 0, 0, 1, 4, 4, 4,
    ]  # fmt: skip
