"""The page about the reports of a rehearsal names the keys and the numbers of the code."""

import re
from dataclasses import fields
from pathlib import Path

import tpuctl.cli.rehearse.report_files as options
from tpuctl.models.rehearsal.moment import Moment
from tpuctl.models.rehearsal.run_history import (
    AttemptSpan,
    FiredDisturbance,
    LoggedStep,
    RunHistory,
    SaveSpan,
)
from tpuctl.models.rehearsal.verdict import (
    Check,
    Judgement,
    ReferenceVerdict,
    RehearsalReport,
    Verdict,
)
from tpuctl.operations.rehearse.judgement.observation.history_of_run import MOST_STEPS

PAGE = (Path(__file__).parents[3] / "docs" / "rehearsal-reports.md").read_text("utf-8")
TABLES = [
    dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE))
    for table in re.findall(r"(?:^\|.+\n)+", PAGE, re.MULTILINE)
]
VERDICTS, FILES, REPORT, REFERENCE, VERDICT, HISTORY = TABLES


def names(kind):
    return [each.name for each in fields(kind)]


def test_the_keys_of_each_document_are_those_of_the_models():
    assert list(REPORT) == ["passed", *names(RehearsalReport)]
    assert list(REFERENCE) == names(ReferenceVerdict)
    assert list(VERDICT) == names(Verdict)
    assert list(HISTORY) == names(RunHistory)


def test_the_keys_of_what_is_inside_are_those_of_the_models():
    inside = {
        Check: REFERENCE["checks"],
        Moment: VERDICT["moment"],
        AttemptSpan: HISTORY["attempts"],
        LoggedStep: HISTORY["steps"],
        SaveSpan: HISTORY["saves"],
        FiredDisturbance: HISTORY["disturbances"],
    }
    assert {kind: re.findall(r"`(\w+)`", text) for kind, text in inside.items()} == {
        kind: names(kind) for kind in inside
    }
    assert f"at most {MOST_STEPS} of each attempt" in HISTORY["steps"]


def test_every_verdict_and_every_file_is_described():
    assert list(VERDICTS) == [*map(str, Judgement), "skipped"]
    written = [names(options.ReportFiles), [key.split()[0][2:] for key in FILES]]
    assert written[0] == written[1]
