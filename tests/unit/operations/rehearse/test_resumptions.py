"""What an attempt made of the saves that it found."""

import pytest

from tpuctl.operations.rehearse.judgement import moment_verdict
from tpuctl.operations.rehearse.judgement.observation.resumptions import Resumption, SaveState


def resumption(resumed_from, saves):
    """An attempt that went on from a step, with saves of (step, whether it is whole)."""
    states = tuple(
        SaveState(step, is_whole, is_whole, (), () if is_whole else ("1/part",), 1)
        for step, is_whole in saves
    )
    return Resumption(2, 1, 20, resumed_from, ((0, resumed_from + 1),), states, (), ())


@pytest.mark.parametrize(
    ("resumed_from", "saves", "forgotten"),
    [
        (-1, [(0, True)], None),  # the state before the first step: MaxText saves that
        (0, [(0, True)], None),  # and this is the state after it
        (0, [(0, True), (5, True)], 5),
        (-1, [(5, True), (10, False)], 5),
        (5, [(5, True), (10, True)], None),  # what it lost is judged by itself
        (0, [], None),
    ],
)
def test_a_save_of_step_0_is_no_more_than_a_beginning(resumed_from, saves, forgotten):
    assert resumption(resumed_from, saves).forgotten_step == forgotten


@pytest.mark.parametrize(("step", "has_lost"), [(0, False), (5, True), (None, True)])
def test_whoever_deletes_more_than_step_0_has_lost_every_save(step, has_lost):
    assert resumption(0, [(step, False)]).has_lost_every_save is has_lost


@pytest.mark.parametrize(("resumed_from", "told"), [(-1, 0), (0, 0), (5, 5)])
def test_whoever_counts_steps_from_0_goes_on_from_the_beginning_too(resumed_from, told):
    assert moment_verdict._resumed_from(resumption(resumed_from, [])) == told
