"""Scenarios as users write them."""

import pytest

from localsim.cloud.scenario import Scenario, ScenarioError


def test_nothing_said_is_plenty():
    assert Scenario.from_mapping({}) == Scenario()
    assert Scenario().limit("us-west4-a", "v5litepod-16") == float("inf")


def test_capacity_is_counted_in_slices():
    scenario = Scenario.from_mapping({"capacity": {"us-west4-a": {"v5litepod-16": 2}}, "seed": 3})
    assert scenario.limit("us-west4-a", "v5litepod-16") == 2
    assert scenario.limit("us-west4-a", "v5litepod-4") == float("inf")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacty": {}}, "scenario: unknown key 'capacty'; nearest: capacity"),
        ({"seed": "x"}, "scenario: seed must be a whole number, not 'x'"),
        (
            {"provisioning_delay_s": -1},
            "scenario: provisioning_delay_s must be a finite number that is not negative, not -1",
        ),
        (
            {"deletion_delay_s": float("inf")},
            "scenario: deletion_delay_s must be a finite number that is not negative, not inf",
        ),
        (
            {"preemption_notice_max_s": float("nan")},
            "scenario: preemption_notice_max_s must be a finite number that is not negative,"
            " not nan",
        ),
        (
            {"acceptance_delay_s": 10**400},
            "scenario: acceptance_delay_s must be a finite number that is not negative,"
            f" not {10**400}",
        ),
        (
            {"preemption_notice_probability": 2},
            "scenario: preemption_notice_probability must be between 0 and 1, not 2",
        ),
        ({"capacity": 3}, "scenario: capacity must map zones to accelerator types"),
        (
            {"capacity": {"z": {"t": -1}}},
            "scenario: capacity.z.t must be a finite number that is not negative, not -1",
        ),
        ([], "scenario: it must map keys to values"),
    ],
)
def test_mistakes_are_one_line(settings, message):
    with pytest.raises(ScenarioError) as error:
        Scenario.from_mapping(settings)
    assert str(error.value) == message
