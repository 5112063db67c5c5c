"""Verdicts on runs that are killed at every request: sound programs pass, defects are named."""

import pytest

from tpuctl.models.rehearsal.verdict import Judgement, Verdict
from tpuctl.operations.rehearse.judgement.moment_verdict import judge_moment
from unit.operations.rehearse.played_jobs import Kill, facts_of, kill_moment, play_job
from unit.operations.rehearse.played_programs import DEFECTIVE, SOUND

GOOD = (Judgement.PASS, Judgement.WARN)


def verdicts(program) -> list[Verdict]:
    """The verdict of every run that is killed before or after a request of the first attempt."""
    references = [play_job(program), play_job(program)]
    reference = facts_of(references)
    kills = range(1, len(references[0].requests) + 1)
    return [
        judge_moment(kill_moment(), play_job(program, [Kill(number, is_after)]), reference)
        for number in kills
        for is_after in (False, True)
    ]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_program_passes_wherever_it_is_killed(name):
    failed = [
        (verdict.checks, verdict.explanation)
        for verdict in verdicts(SOUND[name])
        if verdict.judgement not in GOOD
    ]
    assert failed == []


@pytest.mark.parametrize("cause", DEFECTIVE)
def test_a_defect_is_found_and_named(cause):
    judged = verdicts(DEFECTIVE[cause])
    failed = [verdict for verdict in judged if verdict.judgement == Judgement.FAIL]
    assert failed
    assert {verdict.cause for verdict in failed} == {cause}
