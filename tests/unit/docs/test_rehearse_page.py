"""docs/rehearse.md names the moments, checks and causes that there are, and no others."""

import re
from pathlib import Path

from tpuctl.models.rehearsal.moment import Disturbance
from tpuctl.models.rehearsal.verdict import Cause
from tpuctl.operations.rehearse.judgement import reference_verdict, run_checks
from tpuctl.operations.rehearse.judgement.planned_moments import PREEMPTIONS

PAGE = Path(__file__).parents[3] / "docs" / "rehearse.md"


def rows(heading: str) -> list[set[str]]:
    """The names in the first column of each table below a heading."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [
        {name for line in table.splitlines() for name in re.findall(r"`([^`]+)`", first(line))}
        for table in tables
    ]


def first(line: str) -> str:
    """The first column of a row."""
    return line.split("|")[1]


def test_every_moment_is_there():
    preemptions, others = rows("Moments")
    assert preemptions == {place.name for place in PREEMPTIONS} | {"restore", "twice"}
    assert others == {each.value for each in Disturbance} - {"preemption"}


def test_every_check_is_there():
    disturbed, undisturbed = rows("Checks")
    assert disturbed == {"disturbed"} | {name for name, _ in run_checks.QUESTIONS}
    questions = (*reference_verdict.QUESTIONS, *reference_verdict.LIMIT_QUESTIONS)
    assert undisturbed == {name for name, _ in questions}


def test_every_cause_is_there():
    assert rows("Causes") == [{cause.value for cause in Cause}]
