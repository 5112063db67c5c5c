"""A rehearsal on the terminal: lines or a table while it goes, then moments, failures, summary."""

import io
import json
import os
import re
from dataclasses import fields, replace
from unittest import mock

import pytest
from rich.cells import cell_len

from tpuctl.cli.rehearse.event_display import EventLines, render_events, render_moments
from tpuctl.cli.rehearse.run_board import RunBoard, board_text
from tpuctl.cli.rehearse.verdict_texts import outcome_text, seconds_text, summary_text
from tpuctl.cli.shell.options import Shared
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.rehearsal.moment import Moment
from tpuctl.models.rehearsal.verdict import (
    Check,
    Judgement,
    ReferenceVerdict,
    RehearsalReport,
    Verdict,
)
from tpuctl.operations.rehearse.events import MomentsPlanned, ReferenceJudged, RehearsalEnded
from unit.cli.rehearse.sample_reports import (
    ALL_PASS,
    NEVER_SAVED,
    REFERENCE,
    REPORTS,
    SOME_FAIL,
    TORN_VERDICT,
    UNNOTICED,
    UNSEEN,
    events_of,
    passing,
)

WIDTHS = (60, 80, 120, 200)
NOW_S = 1_800_000_000.0


class Screen(io.StringIO):
    def isatty(self):
        return True


def plain_text(text):
    return re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", text)


def show(report, width=None, **shared):
    """What a rehearsal that ended in the report prints: on stdout, and on stderr."""
    out, err = (Screen(), Screen()) if width else (io.StringIO(), io.StringIO())
    runtime = Runtime(shared=Shared(**shared), out=out, err=err, environ={}, now=lambda: NOW_S)
    environ = {"COLUMNS": str(width or 80), "LINES": "40", "NO_COLOR": "1", "TERM": "xterm"}
    with mock.patch.dict(os.environ, environ):
        render_events(runtime, [RehearsalEnded(report)] if width else events_of(report))
    return out.getvalue(), err.getvalue()


def test_each_event_is_a_line_where_there_is_no_terminal():
    report = replace(SOME_FAIL, verdicts=(passing("restore", "none"), TORN_VERDICT), skipped=())
    _, err = show(report)
    lines = err.splitlines()
    assert lines[:18] == [
        "reference: begins",
        "reference: PREPARING, attempt 1, step 0",
        "reference: RUNNING, attempt 1, step 12",
        "reference: SUCCEEDED, attempt 1, step 60",
        "reference-2: begins",
        "reference-2: PREPARING, attempt 1, step 0",
        "reference-2: RUNNING, attempt 1, step 12",
        "reference-2: SUCCEEDED, attempt 1, step 60",
        "reference: PASS: 60 steps, 6 saves, one every 10 steps, "
        "below gs://local-bucket/runs/digits (20 s)",
        "2 moments follow, 2 at a time",
        "restore/none: begins",
        "save:marker/none: begins",
        "restore/none: RUNNING, attempt 1, step 37",
        "restore/none: RECOVERING, attempt 1, step 37",
        "restore/none: RUNNING, attempt 2, step 31",
        "save:marker/none: RUNNING, attempt 1, step 37",
        "save:marker/none: RECOVERING, attempt 1, step 37",
        "save:marker/none: RUNNING, attempt 2, step 31",
    ]
    assert lines[18:] == [
        "restore/none: PASS: resumed from step 30, 7 steps lost, recovered in 5.1 s (23 s)",
        "save:marker/none: FAIL: marker-before-other-workers: worker 0 writes 0000000030/COMMIT "
        "(request 412) before worker 3 has written 0000000030/part-3 (32 s)",
        "",
        "save:marker/none  FAIL",
        "moment  just before the marker of a save, without notice",
        "place   before 1st upload of gs://local-bucket/runs/digits/0000000030/COMMIT",
        "cause   marker-before-other-workers: worker 0 writes 0000000030/COMMIT (request 412) "
        "before worker 3 has written 0000000030/part-3",
        "fail    values: the loss of step 31 is 0.41258, and 0.39871 in the reference",
        "fail    checkpoint: step 30 is bad: 0000000030/part-3 is missing",
        "kept    /home/ada/.tpuctl/rehearsals/digits-7f3a/save:marker-none",
        "replay: tpuctl rehearse job.yaml --only save:marker/none --seed 7",
        "",
        "digits survives 1 of 2 moments; 1 fails (4 m 35 s)",
    ]


def test_a_pipe_gets_the_moments_with_tabs_and_whole_reasons():
    out, _ = show(SOME_FAIL)
    heading, *rows = out.splitlines()
    assert heading == "MOMENT\tVERDICT\tRESUMED\tLOST\tRECOVERY\tUSD\tWHY"
    assert rows[3] == (
        "save:before-first/30s\tUNKNOWN\t-\t-\t-\t-\t"
        "came-back: the moment never came: the 1st upload was not made"
    )
    assert rows[8] == "save:middle/none\tPASS\t30\t7\t5.1 s\t0.0123\t-"
    assert rows[-1] == (
        "unreachable\tSKIPPED\t-\t-\t-\t-\t"
        "it was not run: the time was over, or the job has no such moment"
    )
    assert len(rows) == len(SOME_FAIL.verdicts) + len(SOME_FAIL.skipped)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_terminal_shows_every_verdict_and_marks_what_it_shortens(width):
    out, err = show(SOME_FAIL, width)
    table = plain_text(out).splitlines()
    names = [verdict.moment.name for verdict in SOME_FAIL.verdicts]
    assert [line.split()[0] for line in table[1 : len(names) + 1]] == names
    assert max(map(cell_len, table)) <= width
    assert ("WHY" in table[0]) or table[-1].startswith("not shown: ")
    whole = "before worker 3 has written 0000000030/part-3"
    torn = next(line for line in table if line.startswith("save:marker/none"))
    assert whole in torn or torn.endswith("…") or "WHY" not in table[0]
    words = plain_text(err)
    assert "replay: tpuctl rehearse job.yaml --only save:marker/none --seed 7\n" in words
    assert whole in " ".join(words.split())
    long = [line for line in words.splitlines() if cell_len(line) > width]
    assert all("tpuctl rehearse" in line for line in long)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("height", [10, 50])
def test_the_live_table_fits_its_window_and_counts_the_runs_that_it_has_no_room_for(width, height):
    board = RunBoard(lambda: NOW_S)
    environ = {"COLUMNS": str(width), "NO_COLOR": "1", "TERM": "xterm"}
    with mock.patch.dict(os.environ, environ):
        for event in events_of(SOME_FAIL):
            board.note(event)
            lines = board_text(board, height).plain.splitlines()
            assert max(map(cell_len, lines)) <= width
            assert len(lines) < height
    shown = [line.split()[0] for line in lines if "/" in line or line.startswith("ref")]
    hidden = re.search(r"… and (\d+) more run", "\n".join(lines))
    assert len(shown) + (int(hidden[1]) if hidden else 0) == len(board.rows)
    assert "14 of 14 moments" in lines[0]
    assert "11 passed, 3 did not pass" in " ".join(lines[:2])


def test_the_live_table_begins_with_what_runs_and_then_has_what_did_not_pass():
    board = RunBoard(lambda: NOW_S)
    events = list(events_of(SOME_FAIL))
    for event in events[: events.index(next(e for e in events if e[0] is TORN_VERDICT)) + 1]:
        board.note(event)
    with mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "xterm"}):
        lines = board_text(board, 9).plain.splitlines()
    assert lines == [
        "10 of 14 moments, 0 running, 8 passed, 2 did not pass; 0.0 s",
        "RUN                    VERDICT  STATE    STEP   ATTEMPT  TIME",
        "save:marker/none       FAIL     RUNNING  31/60        2  0.0 s",
        "save:before-first/30s  UNKNOWN  RUNNING  31/60        2  0.0 s",
        "save:middle/none       PASS     RUNNING  31/60        2  0.0 s",
        "save:middle/5s         PASS     RUNNING  31/60        2  0.0 s",
        "… and 8 more runs",
    ]


def test_the_live_table_is_gone_at_the_end_and_the_words_follow_it():
    err = Screen()
    runtime = Runtime(out=Screen(), err=err, environ={}, now=lambda: NOW_S)
    environ = {"COLUMNS": "100", "LINES": "40", "NO_COLOR": "1", "TERM": "xterm"}
    with mock.patch.dict(os.environ, environ):
        assert render_events(runtime, events_of(SOME_FAIL)) is SOME_FAIL
    before, _, after = err.getvalue().rpartition("\x1b[2K")  # the last line that is removed
    assert "14 of 14 moments, 0 running, 11 passed, 3 did not pass" in before
    assert plain_text(after).endswith("2 fail, 1 is unknown, 2 were not run (4 m 35 s)\n")


def test_quiet_prints_the_table_alone():
    out, err = show(SOME_FAIL, quiet=True)
    assert err == ""
    assert out.startswith("MOMENT\t")


def test_a_reference_that_fails_is_explained_and_no_moment_is_shown():
    out, err = show(NEVER_SAVED)
    assert out == ""
    assert err.splitlines()[-6:] == [
        "reference  FAIL",
        "runs   60 steps, 0 saves",
        "cause  never-saves: the program made 60 steps and wrote nothing to a bucket",
        "fail   saves: 60 steps, and nothing was written to a bucket",
        "",
        "digits: no moment was tried: never-saves: the program made 60 steps and wrote nothing to "
        "a bucket (18 s)",
    ]


def test_the_summary_counts_each_kind_of_end():
    assert summary_text(ALL_PASS) == "digits survives 12 of 12 moments"
    assert summary_text(SOME_FAIL) == (
        "digits survives 11 of 16 moments; 2 fail, 1 is unknown, 2 were not run"
    )
    assert summary_text(replace(ALL_PASS, verdicts=(UNSEEN,), skipped=("restore/5s",))) == (
        "digits survives 0 of 2 moments; 1 is unknown, 1 was not run"
    )
    assert summary_text(replace(ALL_PASS, verdicts=())) == "digits: no moment was tried"


def test_a_warning_passes_and_says_what_could_be_better():
    assert outcome_text(UNNOTICED).endswith(
        "notice: 30 s of notice were given, and no save was made in them"
    )
    assert outcome_text(replace(passing("restore", "5s"), resumed_from=0)).startswith(
        "resumed from the beginning, 7 steps lost"
    )


def test_durations_have_the_unit_that_suits_them():
    texts = [seconds_text(each) for each in (0.04, 9.94, 9.96, 59.6, 141.2, 7500)]
    assert texts == ["0.0 s", "9.9 s", "10 s", "1 m 00 s", "2 m 21 s", "2 h 05 m"]


def test_progress_without_a_new_state_is_not_a_line():
    lines = EventLines()
    assert [len(list(lines.of(event))) for event in events_of(ALL_PASS)][:5] == [1, 1, 1, 0, 1]


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_json_has_the_fields_of_the_models(report):
    out, err = show(report, output="json")
    document = json.loads(out)
    keys = {
        kind: [each.name for each in fields(kind)]
        for kind in (RehearsalReport, ReferenceVerdict, Verdict, Moment, Check)
    }
    assert list(document) == ["passed", *keys[RehearsalReport]]
    assert list(document["reference"]) == keys[ReferenceVerdict]
    for verdict in document["verdicts"]:
        assert list(verdict) == keys[Verdict]
        assert list(verdict["moment"]) == keys[Moment]
        assert [list(check) for check in verdict["checks"]] == [keys[Check]] * len(
            verdict["checks"]
        )
    assert document["passed"] is report.passed
    assert "replay:" not in err


def test_the_keys_of_json_are_public():
    out, _ = show(replace(SOME_FAIL, verdicts=(TORN_VERDICT,)), output="json")
    document = json.loads(out)
    assert list(document) == [
        "passed", "job", "file", "seed", "reference", "verdicts", "skipped", "wall_s",
    ]  # fmt: skip
    assert list(document["reference"]) == [
        "judgement", "checks", "cause", "explanation", "steps", "saves", "save_interval_steps",
        "prefix", "state_dir", "wall_s", "history",
    ]  # fmt: skip
    verdict = document["verdicts"][0]
    assert list(verdict) == [
        "moment", "judgement", "checks", "resumed_from", "lost_steps", "save_interval_steps",
        "recovery_s", "cost_usd", "cause", "explanation", "replay", "state_dir", "wall_s",
        "history",
    ]  # fmt: skip
    assert list(verdict["moment"]) == [
        "name", "title", "disturbance", "timeline", "notice_s", "place", "scenario",
    ]  # fmt: skip
    history = verdict["history"]
    assert list(history) == [
        "ended_s", "attempts", "steps", "saves", "restores_s", "disturbances",
    ]  # fmt: skip
    assert list(history["attempts"][0]) == [
        "number", "zone", "requested_s", "provisioning_s", "ready_s", "started_s", "ended_s",
        "outcome",
    ]  # fmt: skip
    assert history["steps"][0] == {"attempt": 1, "step": 1, "time_s": 2.95}
    assert history["saves"][2] == {"began_s": 10.2, "step": 30, "complete_s": None}
    assert history["disturbances"] == [{"name": "disturbance", "time_s": 12.25}]
    assert (verdict["judgement"], verdict["cause"]) == ("fail", "marker-before-other-workers")


def test_csv_has_a_row_for_each_moment_with_the_command_that_replays_it():
    out, _ = show(replace(SOME_FAIL, verdicts=(TORN_VERDICT,)), output="csv")
    header, row, *_ = out.splitlines()
    assert header == (
        "moment,judgement,resumed_from,lost_steps,recovery_s,cost_usd,cause,why,replay,state_dir,"
        "wall_s"
    )
    assert row.startswith("save:marker/none,fail,20,17,")
    assert "tpuctl rehearse job.yaml --only save:marker/none --seed 7" in row


def list_moments(report, width=None, **shared):
    out, err = (Screen() if width else io.StringIO()), io.StringIO()
    runtime = Runtime(shared=Shared(**shared), out=out, err=err, environ={}, now=lambda: NOW_S)
    planned = MomentsPlanned(tuple(each.moment for each in report.verdicts), 2)
    events = [ReferenceJudged(report.reference), *([planned] if planned.moments else [])]
    environ = {"COLUMNS": str(width or 80), "NO_COLOR": "1", "TERM": "xterm"}
    with mock.patch.dict(os.environ, environ):
        render_moments(runtime, [*events, RehearsalEnded(replace(report, verdicts=()))])
    return plain_text(out.getvalue()), err.getvalue()


def test_moments_can_be_listed():
    report = replace(SOME_FAIL, verdicts=SOME_FAIL.verdicts[8:10])
    out, _ = list_moments(report, width=84)
    assert out.splitlines()[1:] == [
        "MOMENT            ABOUT                                             PLACE",
        "save:middle/none  in the middle of a save, without notice           in the middle o…",
        "save:marker/none  just before the marker of a save, without notice  before 1st uplo…",
    ]
    out, _ = list_moments(report)
    assert out.splitlines()[1] == (
        "save:middle/none\tin the middle of a save, without notice\t"
        "in the middle of 2nd upload of gs://local-bucket/runs/digits/0000000030/*"
    )
    out, _ = list_moments(report, output="json")
    assert [list(each) for each in json.loads(out)] == 2 * [[each.name for each in fields(Moment)]]


def test_a_job_without_moments_says_why():
    out, err = list_moments(NEVER_SAVED)
    assert out == ""
    assert err.splitlines()[-1].startswith("digits: no moment was tried: never-saves: ")


def test_an_unknown_reference_is_not_hidden_by_moments_that_pass():
    unknown = replace(
        REFERENCE, judgement=Judgement.UNKNOWN,
        checks=(Check("values", Judgement.UNKNOWN, "the program does not print a metric"),),
    )  # fmt: skip
    _, err = show(replace(ALL_PASS, reference=unknown))
    assert "unknown  values: the program does not print a metric" in err.splitlines()
