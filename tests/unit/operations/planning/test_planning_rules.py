"""The rules of plans on their own: amounts, batches, meshes, marks, spot."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl import catalog
from tpuctl.errors import UsageError
from tpuctl.models.planning.amount import (
    amount_text,
    parse_amount,
    parse_count,
    percent_text,
    seconds_text,
)
from tpuctl.models.planning.mesh_text import mesh_text
from tpuctl.operations.checkpoints import interval
from tpuctl.operations.planning import scaling_rules
from tpuctl.operations.planning.compared_slices import ComparedSlice
from tpuctl.operations.planning.mesh_choices import (
    ModelSides,
    batch_ways,
    filled_mesh,
    mesh_choices,
    mesh_fault,
)
from tpuctl.operations.planning.run_cost import SavedState, SpotAssumptions, spot_run

SIDES = ModelSides(heads=32, mlp_hidden=14336, layers=32, experts=1, sequence_tokens=8192)


def test_shares_have_two_digits():
    shares = [0.00985, 0.123, 0.999, 1.0]
    assert [percent_text(share) for share in shares] == ["0.98 %", "12 %", "100 %", "100 %"]


def test_amounts():
    texts = ("1T", "4M", "300b", "1.5k", "2e12", "8_192", "7")
    assert [parse_amount(text, "--tokens", least=1, most=1e17) for text in texts] == [
        1e12, 4e6, 3e11, 1500, 2e12, 8192, 7,
    ]  # fmt: skip
    assert [amount_text(each) for each in (1e12, 7.86e6, 38_540, 8192, 0.5)] == [
        "1T", "7.86M", "38.5k", "8192", "0.5",
    ]  # fmt: skip
    assert [seconds_text(each) for each in (1543, 12.34, 0.498, 4.1e-6, 2e-9)] == [
        "1,543 s", "12.3 s", "498 ms", "4.1 us", "2 ns",
    ]  # fmt: skip
    for text in ("", "T", "1X", "nan", "inf", "1e400", "0x10", "9" * 400):
        with pytest.raises(UsageError, match="is not an amount"):
            parse_amount(text, "--tokens", least=1, most=1e17)
    with pytest.raises(UsageError, match="--seq must be a whole number, not 1.5"):
        parse_count("1.5", "--seq", most=100)


@given(st.integers(0, 9), st.integers(0, 3), st.integers(1, 2048))
def test_every_mesh_fills_its_slices_and_divides_the_model_and_the_batch(power, more, sequences):
    devices, slices = 2**power, 2**more
    for mesh in mesh_choices(SIDES, devices, slices, sequences).meshes:
        assert math.prod(mesh.values()) == devices * slices
        assert mesh_fault(mesh, SIDES, sequences) is None
        assert sequences % batch_ways(mesh) == 0


def test_meshes_of_mixtures_cut_the_experts():
    mixture = ModelSides(heads=32, mlp_hidden=14336, layers=32, experts=8, sequence_tokens=4096)
    experts = {mesh["expert"] for mesh in mesh_choices(mixture, 64, 1, 256).meshes}
    assert experts == {1, 2, 4, 8}


def test_a_mesh_may_leave_one_axis_open():
    assert filled_mesh({"fsdp": -1, "tensor": 4}, 64, 1) == {"fsdp": 16, "tensor": 4, "dcn_data": 1}
    assert filled_mesh({"fsdp": -1, "tensor": 3}, 64, 1) is None
    assert filled_mesh({"fsdp": 64, "dcn_fsdp": 2}, 64, 2) == {"fsdp": 64, "dcn_fsdp": 2}
    assert filled_mesh({"fsdp": 64, "dcn_fsdp": 2}, 64, 4) is None
    assert mesh_text({"tensor": 4, "fsdp": 16, "data": 1}) == "fsdp=16,tensor=4"
    assert mesh_text({}) == "1"


def test_published_rules_give_what_their_papers_say():
    # DeepSeek LLM 7B: 2T tokens, a batch of 2304 x 4096 = 9.4M tokens, a rate of 4.2e-4.
    operations = 6 * 6.9e9 * 2e12
    assert scaling_rules.best_batch_tokens(operations) == pytest.approx(9.4e6, rel=0.1)
    assert scaling_rules.best_learning_rate(operations) == pytest.approx(4.2e-4, rel=0.1)
    # Chinchilla: 70B parameters, 1.4T tokens, a loss of 1.94.
    assert scaling_rules.expected_loss(70e9, 1.4e12) == pytest.approx(1.94, abs=0.02)


def test_spot_loses_what_checkpoint_advise_says_of_the_same_saves():
    kind = catalog.accelerator_type("v5litepod-16")
    where = ComparedSlice(kind, "us-west4-a", 1, None, None, None)
    assumed = SpotAssumptions(preempted_every_s=7200, ready_s=300)
    found = spot_run(where, 86400, 1.0, SavedState(160e9), assumed)
    # Four workers send 40 GB each in 40 s; sixteen chips copy 10 GB each in 0.67 s.
    assert found.save_s == 40.0
    cost_s = interval.cost_s(40.0, 160e9 / 16 / 1.5e10)
    every_s = interval.daly_s(cost_s, 7200)
    assert found.save_every_s == every_s
    assert found.lost_share == interval.lost_share(every_s, cost_s, 7200, 300 + 40 + 40)
    assert found.days == pytest.approx(1 / (1 - found.lost_share))
    assert found.preemptions == pytest.approx(found.days * 12)
    assert found.usd is None


def test_spot_that_never_lives_long_enough_never_ends():
    kind = catalog.accelerator_type("v5litepod-16")
    where = ComparedSlice(kind, "us-west4-a", 1, None, None, None)
    assumed = SpotAssumptions(preempted_every_s=1, ready_s=3000)
    assert spot_run(where, 86400, 1.0, SavedState(160e9), assumed).days == math.inf
