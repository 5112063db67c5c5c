"""Steps and values in lines: the same steps as the agent reads, with the texts of the values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.agent.job.logs.step_progress import parse_progress
from tpuctl.errors import UsageError
from tpuctl.models.job_log import LogLine
from tpuctl.operations.jobs import bounded_pattern
from tpuctl.operations.rehearse.judgement.observation.logged_steps import logged_steps

WORDS = st.sampled_from(
    ["step=3", "step=x", "step=", "resumed", "loss=0.10", "a", "=", "step=1234567890123456", "k="]
)
LINES = st.lists(WORDS, max_size=4).map(" ".join)


@given(LINES)
def test_a_line_tells_the_step_that_the_agent_reads(text):
    log = logged_steps([LogLine(1, 0, 0.0, text)], None)
    said = parse_progress(text.encode() + b"\n")
    assert [step.step for step in log.steps] == [said[key] for key in ("step",) if key in said]
    assert log.resumed.get((1, 0)) == said.get("resume_step")


def test_values_keep_their_texts_and_a_repeated_step_is_there_once():
    texts = ["step=1 loss=0.50", "noise", "step=2 loss=0.250", "step=2 lr=1e-3", "resumed step=2"]
    log = logged_steps([LogLine(1, 0, float(i), text) for i, text in enumerate(texts)], None)
    assert [(step.step, step.time_s, dict(step.values)) for step in log.steps] == [
        (1, 0.0, {"loss": "0.50"}),
        (2, 2.0, {"loss": "0.250", "lr": "1e-3"}),
    ]
    assert log.resumed == {(1, 0): 2}


def test_an_expression_finds_step_and_examples():
    lines = [LogLine(1, 0, 0.0, "it 4: l 0.3 [7 9]"), LogLine(1, 0, 0.0, "read 5 of it 4")]
    log = logged_steps(lines, r"it (?P<step>\d+): l (?P<l>\S+)", r"\[(?P<examples>[\d ]+)\]")
    assert dict(log.steps[0].values) == {"l": "0.3"}
    assert log.examples == {(1, 0, 4): "7 9"}


def test_a_count_of_examples_does_not_name_them():
    log = logged_steps([LogLine(1, 0, 0.0, f"step={n} examples=32") for n in (1, 2)], None)
    assert log.examples == {}


@pytest.mark.parametrize("group", ["progress", "examples"])
def test_an_expression_that_backtracks_without_end_is_given_up(monkeypatch, group):
    monkeypatch.setattr(bounded_pattern, "LIMIT_S", 0.02)
    endless = rf"(?P<{'step' if group == 'progress' else 'examples'}>(\d+)+)x"
    given = {"progress": None, group: endless}
    with pytest.raises(UsageError) as caught:
        logged_steps([LogLine(1, 0, 0.0, "step=1 " + "1" * 60)], **given)
    assert str(caught.value) == f"{endless!r} takes more than 0.02 s for one line"
