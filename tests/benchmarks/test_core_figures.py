"""All figures of the matmul core in one run: `pytest @tests/benchmarks/core_figures`.

That file names the others. Here is what docs/accuracy.md says of rows that nothing was fitted to;
tests/unit/accuracy, in the same run, sees that the page is current.
"""

from pathlib import Path

import pytest

from benchmarks.measure import keep

pytestmark = pytest.mark.benchmark

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"


def test_accuracy_of_the_model():
    section = PAGE.read_text("utf-8").split("## Against what was asked for\n\n")[1]
    table = section.split("\n\n")[0].splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    assert len(rows) >= 4
    for kind, *found in rows:
        figures = dict(zip(head[1:], found, strict=True))
        keep(f"accuracy, {kind}, rows that were not fitted", "beside each figure", **figures)
