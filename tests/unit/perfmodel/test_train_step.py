"""The modelled time of a training step: what it adds up from, and how it answers changes."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware
from tpuctl.perfmodel.workload.train_run import PRECISIONS, REMATS, TrainRun
from tpuctl.perfmodel.workload.training.step_work import StepWork, step_work
from tpuctl.perfmodel.workload.training.train_constants import train_constants
from tpuctl.perfmodel.workload.training.train_step import step_terms, train_step

SLICES = st.sampled_from(
    [("v5e", "16x16"), ("v6e", "8x16"), ("v5p", "4x4x8"), ("tpu7x", "4x4x4"), ("v3", "16x16")]
)
MODELS = st.sampled_from(["llama-3-8b", "llama-3-70b", "mixtral-8x7b", "deepseek-v3"])


@st.composite
def cuts(draw: st.DrawFn) -> Parallelism:
    """Any product of powers of two up to 256 devices."""
    names = [field.name for field in fields(Parallelism)]
    ways = draw(st.lists(st.sampled_from(names), max_size=8))
    return Parallelism(**{name: 2 ** ways.count(name) for name in names})


RUNS = st.builds(
    TrainRun,
    sequences=st.sampled_from([256, 512, 4096]),
    sequence_tokens=st.sampled_from([1024, 2048, 8192, 131072]),
    parallelism=cuts(),
    remat=st.sampled_from(REMATS),
    precision=st.sampled_from(PRECISIONS),
    accumulation_steps=st.sampled_from([1, 4]),
)


@given(SLICES, MODELS, RUNS)
def test_terms_add_up_to_the_value_and_the_interval_contains_it(where, name, run):
    step = train_step(slice_hardware(*where), known_transformer(name), run)
    assert sum(step.terms.values()) == pytest.approx(step.value_s)
    assert 0 < step.low_s < step.value_s < step.high_s
    assert min(step.terms.values()) >= 0 <= min(step.hidden.values())
    assert step.terms[step.bound] == max(step.terms.values())


@given(SLICES, MODELS, st.lists(RUNS, min_size=2, max_size=5))
def test_plans_asked_at_once_have_the_times_of_plans_asked_alone(where, name, runs):
    hardware, model = slice_hardware(*where), known_transformer(name)
    runs = [
        replace(run, remat=runs[0].remat, precision=runs[0].precision, accumulation_steps=1)
        for run in runs
    ]
    ways = {
        field.name: np.array([getattr(run.parallelism, field.name) for run in runs])
        for field in fields(Parallelism)
    }
    together = replace(
        runs[0],
        sequences=np.array([run.sequences for run in runs]),
        sequence_tokens=np.array([run.sequence_tokens for run in runs]),
        parallelism=Parallelism(**ways),
    )
    at_once = train_step(hardware, model, together)
    alone = [train_step(hardware, model, run) for run in runs]
    assert at_once.value_s == pytest.approx([step.value_s for step in alone])
    assert list(at_once.bound) == [step.bound for step in alone]


@given(SLICES, MODELS, RUNS, st.sampled_from(["data", "fsdp", "tensor"]))
def test_more_devices_never_compute_longer_on_the_same_batch(where, name, run, kind):
    hardware, model = slice_hardware(*where), known_transformer(name)
    more = replace(
        run,
        parallelism=replace(run.parallelism, **{kind: 2 * getattr(run.parallelism, kind)}),
    )
    small, large = (step_work(hardware, model, one) for one in (run, more))
    for part in ("matmul", "experts", "vocab", "attention", "elementwise"):
        assert getattr(large, part) <= getattr(small, part) * (1 + 1e-9), part


def work_of(name: str, run: TrainRun, where: tuple[str, str] = ("v5e", "16x16")) -> StepWork:
    return step_work(slice_hardware(*where), known_transformer(name), run)


def test_a_step_multiplies_six_operations_a_parameter_and_two_for_each_that_is_redone():
    run = TrainRun(1024, 4096, Parallelism(fsdp=256), remat="none")
    once, redone = work_of("llama-3-8b", run), work_of("llama-3-8b", replace(run, remat="full"))
    layers = 32 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    assert once.matmul * 197e12 * 256 == pytest.approx(6 * layers * 1024 * 4096)
    last = 32 * 14336 * 4096  # what the MLP's last matrix gives is needed by nobody
    assert redone.matmul == pytest.approx(once.matmul)
    assert once.matmul_again == 0
    assert redone.matmul_again / once.matmul == pytest.approx((layers - last) / layers / 3)
    assert redone.vocab == once.vocab


def test_a_token_goes_through_its_experts_only():
    work = work_of("mixtral-8x7b", TrainRun(1024, 4096, Parallelism(fsdp=256), remat="none"))
    expert = 3 * 4096 * 14336
    assert work.experts * 197e12 * 256 == pytest.approx(6 * 32 * 2 * expert * 1024 * 4096)


def test_weights_are_gathered_twice_and_gradients_scattered_once():
    work = work_of("llama-3-8b", TrainRun(1024, 4096, Parallelism(fsdp=256)))
    received = 3 * 2 * 8.03e9 * 255 / 256
    assert work.fsdp == pytest.approx(received / (4 * 45e9), rel=1e-3)  # two rings of two links


def test_tensor_parallelism_off_the_ring_has_one_link():
    run = TrainRun(1024, 4096, Parallelism(fsdp=16, tensor=16))
    on_ring = work_of("llama-3-70b", run)
    off_ring = work_of("llama-3-70b", replace(run, parallelism=Parallelism(fsdp=32, tensor=8)))
    rows = 12 * 80 * 2 * 8192 * 1024 * 4096
    assert on_ring.tensor == pytest.approx(rows / 16 * 15 / 16 / (2 * 45e9))
    assert off_ring.tensor == pytest.approx(rows / 32 * 7 / 8 / 45e9)


def test_stages_of_a_pipeline_wait_for_each_other():
    run = TrainRun(1024, 4096, Parallelism(fsdp=32, pipeline=8), accumulation_steps=16)
    assert work_of("llama-3-70b", run).bubble == pytest.approx(7 / 16)
    without = replace(run, accumulation_steps=1)  # four microbatches a stage
    assert work_of("llama-3-70b", without).bubble == pytest.approx(7 / 32)
    small = replace(without, sequences=64)  # two sequences a device
    assert work_of("llama-3-70b", small).bubble == pytest.approx(7 / 2)


def test_what_is_done_once_a_step_lengthens_no_bubble():
    run = TrainRun(1024, 4096, Parallelism(data=8, fsdp=4, pipeline=8), accumulation_steps=16)
    work, constants = work_of("llama-3-70b", run), train_constants("v5e")
    more = {name: 1 + getattr(work, name) for name in ("optimizer", "data", "dcn", "dcn_once")}
    once = replace(work, **more)
    step, longer = (sum_and_bubble(step_terms(each, constants)[0]) for each in (work, once))
    assert longer[0] > step[0]
    assert longer[1] == pytest.approx(step[1])


def sum_and_bubble(terms: dict[str, Any]) -> tuple[float, float]:
    return float(sum(terms.values())), float(terms["bubble"])


def test_every_microbatch_reads_and_gathers_the_weights_of_its_stage():
    run = TrainRun(1024, 4096, Parallelism(fsdp=32, pipeline=8))  # 32 sequences: 32 microbatches
    alike = replace(run, accumulation_steps=32)
    for field in fields(StepWork):
        by_default, as_asked = (
            getattr(work_of("llama-3-70b", each), field.name) for each in (run, alike)
        )
        assert by_default == pytest.approx(as_asked), field.name


PIPELINES = st.sampled_from(
    [
        Parallelism(pipeline=8, fsdp=8, data=4),
        Parallelism(pipeline=16, data=16),
        Parallelism(pipeline=4, tensor=4, expert=8, fsdp=2),
        Parallelism(fsdp=256, dcn_pipeline=4, dcn_data=2),
        Parallelism(data=64, sequence=4, dcn_pipeline=2, dcn_fsdp=4),
    ]
)


@given(SLICES, MODELS, RUNS, PIPELINES, st.integers(1, 64), st.sampled_from([128, 1024, 8192]))
def test_more_tokens_never_take_less_time_through_a_pipeline(where, name, run, cut, parts, length):
    hardware, model = slice_hardware(*where), known_transformer(name)
    sequences = np.array([[parts], [parts + 1], [2 * parts]]) * cut.batch_ways
    lengths = np.array([length, length + 128, 2 * length])
    batches = replace(run, parallelism=cut, sequences=sequences, sequence_tokens=lengths)
    step_s = train_step(hardware, model, batches).value_s
    for axis in (0, 1):
        assert (np.diff(step_s, axis=axis) >= -1e-9 * step_s.max()).all()


def test_a_generation_without_a_step_of_the_common_framework_has_a_wider_interval():
    model, run = known_transformer("llama-3-8b"), TrainRun(512, 4096, Parallelism(fsdp=32))
    old, new = (
        train_step(slice_hardware(*where), model, run) for where in (("v3", "4x4"), ("v4", "2x4x4"))
    )
    assert old.high_s / old.low_s > new.high_s / new.low_s
    assert "v3 among them, none of MaxText" in old.sources[0]
    assert "MaxText" not in new.sources[0]


def test_heads_that_do_not_fill_the_mxu_are_padded():
    run = TrainRun(512, 4096, Parallelism(fsdp=128))
    assert work_of("llama-3-8b", run, ("v6e", "8x16")).attention_padding == 2  # 128 of 256
    assert work_of("llama-3-8b", run, ("v5e", "8x16")).attention_padding == 1


def test_a_token_is_compared_with_half_of_the_tokens_that_a_longer_sequence_has_more():
    short, long = (
        work_of("llama-3-8b", TrainRun(count, tokens, Parallelism(fsdp=256)))
        for count, tokens in ((512, 4096), (256, 8192))
    )
    assert long.attention - short.attention == pytest.approx(2048 * short.attention_token)
    assert long.attention_token == pytest.approx(short.attention_token)


def test_narrow_matrices_are_padded_to_the_mxu():
    run = TrainRun(512, 4096, Parallelism(fsdp=2, tensor=64), remat="none")
    whole = work_of("llama-3-8b", replace(run, parallelism=Parallelism(fsdp=128)))
    cut = work_of("llama-3-8b", run)  # 14336 / 64 = 224 of 256, 4096 / 64 = 64 of 128
    assert cut.matmul > 1.2 * whole.matmul


def test_operands_are_read_less_often_where_vmem_is_larger():
    run = TrainRun(512, 4096, Parallelism(fsdp=128))
    small, large = (
        work_of("llama-3-8b", run, where) for where in (("v4", "4x4x8"), ("v5p", "4x4x8"))
    )
    blocks = 2  # 64 MiB in place of 16: twice the side
    assert small.reread * 1200 == pytest.approx(blocks * large.reread * 2765)


def test_experts_with_a_capacity_are_masked_and_those_without_sorted():
    run = TrainRun(1024, 4096, Parallelism(fsdp=256))
    dropless = work_of("mixtral-8x7b", run)
    dropping = work_of("mixtral-8x7b", replace(run, capacity_factor=1.25))
    assert (dropless.masking, dropping.dispatch) == (0, 0)
    assert dropping.experts == pytest.approx(1.25 * dropless.experts)
    assert dropping.masking > 0
    assert dropless.dispatch > 0


def test_between_slices_gradients_cross_the_network():
    run = TrainRun(4096, 2048, Parallelism(fsdp=256, dcn_data=4))
    shard = 2 * 8.03e9 / 256
    assert work_of("llama-3-8b", run).dcn == pytest.approx(2 * shard * 3 / 4 / 3.125e9, rel=1e-3)


def test_accumulation_steps_broadcast():
    run = TrainRun(512, 4096, Parallelism(fsdp=64, dcn_pipeline=2))
    steps = np.array([1, 2, 8])
    together = work_of("llama-3-8b", replace(run, accumulation_steps=steps))
    for number, count in enumerate(steps.tolist()):
        alone = work_of("llama-3-8b", replace(run, accumulation_steps=count))
        for field in fields(StepWork):
            found = np.broadcast_to(getattr(together, field.name), steps.shape)[number]
            assert found == pytest.approx(float(getattr(alone, field.name))), field.name
