"""When the quickstart takes the slice away."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tpuctl.models.job import JobSpec
from tpuctl.operations.local import quickstart

SPEC = JobSpec(name="digits", run="true", envs={"STEPS": "300", "SAVE_EVERY": "50"})


@given(st.integers(0, 10_000))
def test_it_is_drawn_from_the_seed_well_after_a_save_and_well_before_the_next(seed):
    planned = quickstart.draw_plan(Path("digits"), SPEC, seed)
    assert planned == quickstart.draw_plan(Path("digits"), SPEC, seed)
    assert 2 * planned.save_every < planned.preempt_step < planned.steps - planned.save_every // 3
    assert planned.preempt_step % planned.save_every not in (0, 1, planned.save_every - 1)


def test_seeds_differ():
    drawn = {quickstart.draw_plan(Path("digits"), SPEC, seed).preempt_step for seed in range(20)}
    assert len(drawn) > 10
