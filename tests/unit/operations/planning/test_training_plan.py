"""Which slice a run needs, with models of steps and memory that can be reckoned in the head."""

from dataclasses import replace

import pytest

from tpuctl.errors import NotFoundError, PreconditionError, UsageError
from tpuctl.models.money.price_book import PriceBook
from tpuctl.models.planning.plan_spec import ModelChoice, PlanLimits, SliceChoice, TrainPlanSpec
from tpuctl.operations.planning.planned_slice import Fit, Mark
from tpuctl.operations.planning.training_advice import AdviceKind, training_advice
from tpuctl.operations.planning.training_plan import MeasuredStep, plan_training
from unit.operations.planning.simple_models import GIB, SIMPLE

DAY_STEPS = 86400
SPEC = TrainPlanSpec(
    model=ModelChoice("llama-3-8b"),
    tokens=256 * 8192 * DAY_STEPS,
    sequence_tokens=8192,
    batch_sequences=256,
    slices=SliceChoice(generations=("v5e",), zone="us-west4-a"),
)
"""A day of steps of a second."""
STEPS_S = (32.01, 16.03, 8.07, 4.15, 2.31)
"""256 s over the chips, and 10 ms for each way of tensor parallelism but the first."""


def plan(**changes):
    return plan_training(replace(SPEC, **changes), PriceBook(), 0.0, models=SIMPLE)


def named(found):
    return {row.where.kind.name: row for row in found.rows}


def test_each_type_has_the_fastest_sharding_that_fits():
    rows = named(plan())
    assert list(rows) == [f"v5litepod-{n}" for n in (1, 4, 8, 16, 32, 64, 128, 256)]
    assert {name: row.fit for name, row in rows.items() if row.fit is Fit.NO} == {
        "v5litepod-1": Fit.NO,
        "v5litepod-4": Fit.NO,
    }
    assert rows["v5litepod-4"].why == "needs 16.0 GiB of 15.8 GiB a device"
    # 8 GiB of state leave room for 6 sequences of a GiB with a tenth to spare: 8 passes of 4.
    eight = rows["v5litepod-8"].step
    assert (eight.mesh["fsdp"], eight.remat, eight.accumulation_steps) == (8, "none", 8)
    assert eight.step_s == 32.0
    # Of two meshes that are as fast the first counts: nothing is tensor parallel.
    assert rows["v5litepod-256"].step.mesh["tensor"] == 1
    assert rows["v5litepod-256"].step.step_s == 1.0


def test_days_and_usd_follow_from_the_step():
    row = named(plan())["v5litepod-256"]
    assert row.cost.days == 1.0
    assert (row.cost.days_low, row.cost.days_high) == pytest.approx((0.9, 1.1))
    assert row.cost.usd == pytest.approx(24 * 256 * 1.2)
    assert row.cost.usd_reserved == pytest.approx(24 * 256 * 0.84)
    assert row.tokens_per_s == 256 * 8192
    assert row.step.memory_bytes == 1.25 * GIB
    assert row.step.memory_kinds == {"weights": GIB / 4, "activations": GIB}


def test_spot_costs_its_preemptions_too():
    row = named(plan())["v5litepod-256"]
    spot = row.cost.spot
    assert spot.preemptions == pytest.approx(spot.days)  # one a day is assumed
    assert spot.days == pytest.approx(1 / (1 - spot.lost_share))
    assert spot.usd == pytest.approx(24 * 256 * 0.607 * spot.days)


def test_a_tight_fit_is_taken_where_nothing_else_fits_and_gets_no_mark():
    # 64 GiB of state and 25 sequences, which no accumulation divides: 89 of 95 GiB, or 97.9.
    four = SliceChoice(types=("v5p-8",))
    row = plan(slices=four, mesh={"data": 4}, batch_sequences=100, remat="none").rows[0]
    assert (row.fit, row.marks) == (Fit.TIGHT, ())
    assert (row.step.memory_bytes, row.step.memory_high_bytes) == pytest.approx(
        (89 * GIB, 97.9 * GIB)
    )


def test_marks_are_the_cheapest_the_fastest_and_the_knee():
    found = named(plan())
    # All slices cost the same here: then the fastest is the cheapest.
    assert found["v5litepod-256"].marks == (Mark.CHEAPEST, Mark.FASTEST, Mark.KNEE)
    # Ways of tensor parallelism take 10 ms each: the larger the slice, the more they cost.
    found = named(plan(mesh={"data": 1, "fsdp": 4, "tensor": -1}, sequence_tokens=8192))
    steps = {name: row.step.step_s for name, row in found.items() if row.step}
    assert steps == pytest.approx(
        dict(zip((f"v5litepod-{n}" for n in (8, 16, 32, 64, 128)), STEPS_S, strict=True))
    )
    assert {name: row.marks for name, row in found.items() if row.marks} == {
        "v5litepod-16": (Mark.CHEAPEST,),  # 0.2 % dearer than on eight chips, and half the days
        "v5litepod-128": (Mark.FASTEST, Mark.KNEE),
    }


def test_limits_leave_out_what_is_too_slow_or_too_dear():
    found = named(plan(limits=PlanLimits(days=3, usd=10_000)))
    assert found["v5litepod-64"].why == "takes 4 days of 3"
    assert found["v5litepod-128"].is_within_limits
    assert found["v5litepod-256"].marks == (Mark.CHEAPEST, Mark.FASTEST, Mark.KNEE)
    dear = named(plan(limits=PlanLimits(usd=7000)))
    assert dear["v5litepod-256"].why == "costs 7,373 USD of 7,000"
    assert not any(row.marks for row in dear.values())


def test_measured_steps_multiply_all_times():
    measured = MeasuredStep("digits-1", "v5litepod-8", 1, 100, measured_s=48.0, modelled_s=32.0)
    found = plan_training(SPEC, PriceBook(), 0.0, calibration=measured, models=SIMPLE)
    row = named(found)["v5litepod-256"]
    assert (row.step.step_s, row.step.step_high_s) == pytest.approx((1.5, 1.65))
    assert row.step.terms["matmul"] == 1.5
    assert row.cost.days == 1.5


def test_bounds_of_the_batch():
    row = named(plan())["v5litepod-256"]
    assert row.least_compute_bound_batch == 256
    # 12.75 GiB are left of 15.75 with a tenth to spare and the state: 8 sequences a device.
    assert row.largest_batch == 8 * 256


def test_several_slices_multiply_chips_and_preemptions():
    one, two = (
        named(plan(slices=SliceChoice(types=("v5litepod-64",), zone="us-west4-a", num_slices=n)))[
            "v5litepod-64"
        ]
        for n in (1, 2)
    )
    assert (two.where.chips, two.devices, two.step.step_s) == (128, 128, one.step.step_s / 2)
    assert two.cost.usd == pytest.approx(one.cost.usd)
    assert two.step.mesh["dcn_data"] == 2
    assert two.cost.spot.preemptions == pytest.approx(2 * two.cost.spot.days)


def test_a_mesh_that_was_given_is_taken_or_refused_in_one_line():
    filled = plan(mesh={"fsdp": -1, "tensor": 4}, slices=SliceChoice(types=("v5litepod-64",)))
    assert filled.rows[0].step.mesh == {"fsdp": 16, "tensor": 4, "dcn_data": 1}
    for mesh, why in (
        ({"fsdp": 3}, "v5litepod-64 does not take the run: mesh fsdp=3 does not fill 64 devices"),
        (
            {"tensor": 64},
            "v5litepod-64 does not take the run: tensor=64 does not divide 32 heads",
        ),
    ):
        with pytest.raises(UsageError) as refused:
            plan(mesh=mesh, slices=SliceChoice(types=("v5litepod-64",)))
        assert str(refused.value) == why
    with pytest.raises(UsageError, match="does not divide 250"):
        plan(mesh={"fsdp": 64}, batch_sequences=250, slices=SliceChoice(types=("v5litepod-64",)))


def test_a_model_that_fits_nowhere_names_the_nearest_slice_that_would_hold_it():
    with pytest.raises(PreconditionError) as refused:
        plan(slices=SliceChoice(types=("v5litepod-1", "v5litepod-4")))
    assert str(refused.value) == (
        "llama-3-8b fits on none of 2 slices: v5litepod-4 needs 16.0 GiB of 15.8 GiB a device"
    )
    assert refused.value.hint == "v3-8 would do: add -t v3-8"
    # The zone that was asked for has neither v3-8 nor a larger slice of v5e.
    with pytest.raises(PreconditionError) as refused:
        plan(slices=SliceChoice(types=("v5litepod-4",), zone="us-west4-a"))
    assert refused.value.hint == "v5litepod-8 would do: add -t v5litepod-8"
    # 5 TiB of sequences on every device are too much for any slice.
    with pytest.raises(PreconditionError, match="llama-3-8b does not fit: v5litepod-8 needs"):
        plan(mesh={"data": 8}, slices=SliceChoice(types=("v5litepod-8",)))


def test_a_zone_without_such_slices_is_named():
    with pytest.raises(NotFoundError, match="no slice with a known price is in us-west4-a"):
        plan(slices=SliceChoice(generations=("v5p",), zone="us-west4-a"))


def test_without_a_zone_the_cheapest_counts():
    zones = {row.where.zone for row in plan(slices=SliceChoice(types=("v6e-8",))).rows}
    assert zones == {"us-central1-b"}


def test_generations_without_a_price_are_planned_when_they_are_named():
    row = plan(slices=SliceChoice(types=("tpu7x-8",))).rows[0]
    assert (row.where.zone, row.cost.usd, row.cost.spot.usd) == (None, None, None)
    assert row.devices == 8
    assert row.marks == (Mark.FASTEST,)


def test_a_generation_that_is_named_is_compared_without_a_price_too():
    both = plan(slices=SliceChoice(generations=("v6e", "tpu7x")))
    assert {row.where.kind.generation for row in both.rows} == {"v6e", "tpu7x"}
    assert all(row.where.on_demand for row in plan(slices=SliceChoice()).rows)


def test_the_batch_follows_a_published_rule_where_none_is_given():
    found = plan(batch_sequences=None, tokens=1e12)
    # 0.292 x (6 x 8.03e9 x 1e12)^0.3271 = 7.7M tokens: 937 sequences, about 2^10.
    assert {row.batch_sequences for row in found.rows} == {1024}
    odd = plan(batch_sequences=None, tokens=1e12, slices=SliceChoice(types=("v4-384",)))
    assert odd.rows[0].batch_sequences % (3 * 64) == 0


def test_advice_names_its_sources():
    found = plan(mesh={"fsdp": -1, "tensor": 16}, slices=SliceChoice(types=("v5litepod-64",)))
    advice = {each.kind: each for each in training_advice(found)}
    assert set(advice) >= {
        AdviceKind.BATCH, AdviceKind.LEARNING_RATE, AdviceKind.CHECKPOINT, AdviceKind.TORUS,
    }  # fmt: skip
    assert all(each.source for each in advice.values())
    assert advice[AdviceKind.TORUS].text == (
        "no axis of 8x8 is a ring: the collectives of fsdp=4, tensor=16 have one link an axis in "
        "place of two; slices with an axis of 16 have rings"
    )
    # 8.03e9 parameters with 12 bytes each, every 8.38 min: 172 times a day.
    assert "writes 89.7 GiB, 15.1 TiB a day; " in advice[AdviceKind.CHECKPOINT].text
    assert AdviceKind.PADDING not in advice  # 8016 to 8064 columns of the vocabulary: 0.6 %


def test_padding_that_wastes_the_matrix_unit_is_named_shape_by_shape():
    slices = SliceChoice(types=("v6e-8",))
    found = plan(model=ModelChoice("gpt2"), mesh={"fsdp": 4, "tensor": 2}, slices=slices)
    padded = [each.text for each in training_advice(found) if each.kind is AdviceKind.PADDING]
    assert padded == [
        "head_dim (in attention) 64 is padded from 64 to 256 by tiles of 256: 75 % of its products "
        "is wasted; 256 would waste nothing",
        "heads x head_dim 768 over 2 devices is padded from 384 to 512 by tiles of 256: 25 % of "
        "its products is wasted; 512 or 1024 would waste nothing",
    ]
