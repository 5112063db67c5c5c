"""Scenarios as users write them."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.scenario.distributions import DISTRIBUTIONS, draw_amount
from localsim.rules.scenario.fault_texts import GRAMMAR, MAX_SLOWDOWN
from localsim.rules.scenario.fault_types import WorkerFaultKind
from localsim.rules.scenario.scenario import (
    Scenario,
    ScenarioError,
    built_in_scenarios,
    load_scenario,
)
from localsim.rules.state import node_faults

UNLIMITED = float("inf")
TIMELINE = [{"at_s": 10, "slices": 1}, {"at_s": 600, "slices": 2}]


def test_nothing_said_is_plenty():
    assert Scenario.from_mapping({}) == Scenario() == load_scenario("plenty")
    assert Scenario().limit("us-west4-a", "v5litepod-16") == UNLIMITED


def test_capacity_is_counted_in_slices():
    scenario = Scenario.from_mapping({"capacity": {"us-west4-a": {"v5litepod-16": 2}}, "seed": 3})
    assert scenario.limit("us-west4-a", "v5litepod-16") == 2
    assert scenario.limit("us-west4-a", "v5litepod-4") == UNLIMITED


def test_capacity_changes_with_time_and_before_the_first_step_there_is_none():
    scenario = Scenario.from_mapping({"capacity": {"*": {"v5litepod-16": TIMELINE}}})
    at = [scenario.limit("us-west4-a", "v5litepod-16", at_s) for at_s in (0, 10, 599, 600, 1e9)]
    assert (at, scenario.steps_s()) == ([0, 1, 1, 2, 2], (10, 600))


def test_three_scenarios_ship():
    assert built_in_scenarios() == ("new-project", "plenty", "spot-storm", "stockout")
    stockout = load_scenario("stockout")
    assert [stockout.limit("us-west4-a", "v6e-8", at_s) for at_s in (0, 600)] == [0, 2]
    assert load_scenario("spot-storm").spot_lifetime_s == {"exponential": 300}


def test_a_file_is_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("seed: 4\nquota: {IN_USE_ADDRESSES: 8}\n")
    assert (
        load_scenario(path)
        == load_scenario(str(path))
        == Scenario(seed=4, quota={"IN_USE_ADDRESSES": 8})
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seed: [", "is not YAML (line 1): "),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"- 1", "scenario: it must map keys to values"),
        (b"faults: [GetNod]", "scenario: faults[0]: fault: 'GetNod' has no colon"),
        (b"[" * 20_000, "is nested more than 64 levels deep (line 1)"),
    ],
)
def test_a_file_that_is_none_is_one_line(tmp_path, content, message):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as error:
        load_scenario(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_tells_which_ship(tmp_path):
    with pytest.raises(ScenarioError, match="No such file.*shipped: new-project, plenty, spot"):
        load_scenario(tmp_path / "none")


def test_changes_are_merged_and_null_is_the_default():
    scenario = Scenario(seed=7, quota={"IN_USE_ADDRESSES": 8})
    capacity = {"us-west4-a": {"v5litepod-16": 1, "v5litepod-4": 2}}
    changed = scenario.changed({"capacity": capacity, "quota": None})
    assert (changed.seed, changed.quota, changed.capacity) == (7, {}, capacity)
    again = changed.changed({"capacity": {"us-west4-a": {"v5litepod-4": None}}, "seed": None})
    assert (again.seed, again.capacity) == (0, {"us-west4-a": {"v5litepod-16": 1}})


def test_settings_make_the_same_scenario_again_even_as_json():
    for name in built_in_scenarios():
        settings = json.loads(json.dumps(load_scenario(name).settings()))
        assert json.loads(json.dumps(Scenario.from_mapping(settings).settings())) == settings


FIXED = {"at_s": 1, "slices": 2}
RESERVED = {"name": "r", "zone": "us-west4-a", "accelerator_type": "v5litepod-16", "slices": 1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacty": {}}, "scenario: unknown key 'capacty'; nearest: capacity"),
        ({"seed": "x"}, "scenario: seed must be a whole number, not 'x'"),
        ({"seed": 2**64}, "scenario: seed must fit in 64 bits"),
        (
            {"provisioning_delay_s": -1},
            "scenario: provisioning_delay_s must be a finite number that is not negative, not -1",
        ),
        (
            {"provisioning_delay_s": {"unform": [1, 2]}},
            "scenario: provisioning_delay_s: unknown distribution 'unform'; nearest: uniform",
        ),
        (
            {"provisioning_delay_s": {"uniform": 3}},
            "scenario: provisioning_delay_s.uniform takes low, high, not 3",
        ),
        (
            {"spot_lifetime_s": {"exponential": "x"}},
            "scenario: spot_lifetime_s.exponential mean must be a finite number that is not"
            " negative, not 'x'",
        ),
        (
            {"deletion_delay_s": float("inf")},
            "scenario: deletion_delay_s must be a finite number that is not negative, not inf",
        ),
        ({"deletion_delay_s": 1e300}, "scenario: deletion_delay_s must be at most 3153600000,"),
        (
            {"preemption_notice_max_s": float("nan")},
            "scenario: preemption_notice_max_s must be a finite number that is not negative,"
            " not nan",
        ),
        (
            {"preemption_notice_probability": 2},
            "scenario: preemption_notice_probability must be between 0 and 1, not 2",
        ),
        ({"capacity": 3}, "scenario: capacity must map zones to accelerator types"),
        (
            {"capacity": {"us-west4-x": {}}},
            "scenario: capacity: unknown zone 'us-west4-x'; nearest: us-west4-",
        ),
        (
            {"capacity": {"us-west4-a": {"v5e-16": 1}}},
            "scenario: capacity.us-west4-a: unknown accelerator type 'v5e-16'; nearest: v",
        ),
        (
            {"capacity": {"us-west4-a": {"v5litepod-16": -1}}},
            "scenario: capacity.us-west4-a.v5litepod-16 must be a whole number that is not"
            " negative, not -1",
        ),
        (
            {"capacity": {"*": {"*": [{"at_s": 1}]}}},
            "scenario: capacity.*.*[0] needs slices",
        ),
        (
            {"capacity": {"*": {"*": [{**FIXED, "at": 1}]}}},
            "scenario: capacity.*.*[0]: unknown key 'at'; nearest: at_s",
        ),
        (
            {"quota": {"TPUV6EPerProjectPerZone": 1}},
            "scenario: quota: unknown quota 'TPUV6EPerProjectPerZone'; nearest: TPUV6EPer",
        ),
        (
            {"quota": {"IN_USE_ADDRESSES": {"us-west4-a": 1}}},
            "scenario: quota.IN_USE_ADDRESSES: unknown region 'us-west4-a'; nearest: us-west4",
        ),
        ({"workers": "docker"}, "scenario: workers must be process or none, not 'docker'"),
        ({"expired_requests": 3}, "scenario: expired_requests must be fail or wait, not 3"),
        (
            {"worker_that_never_boots": "a"},
            "scenario: worker_that_never_boots must be NODE/INDEX, not 'a'",
        ),
        ({"unreachable": "us-west4-a"}, "scenario: unreachable must be a list, not 'us-west4-a'"),
        ({"reservations": [{"name": "r"}]}, "scenario: reservations[0] needs zone"),
        (
            {"reservations": [{**RESERVED, "size": 3}]},
            "scenario: reservations[0]: unknown key 'size'; nearest: ",
        ),
        (
            {"maintenance": [{"nodes": "*", "after_s": 1, "type": "SOON"}]},
            "scenario: maintenance[0].type must be SCHEDULED or UNSCHEDULED, not 'SOON'",
        ),
        (
            {"faults": ["GetNode: UNAVAILBLE"]},
            "scenario: faults[0]: fault: unknown code 'UNAVAILBLE'; nearest: UNAVAILABLE",
        ),
        ([], "scenario: it must map keys to values"),
    ],
)
def test_mistakes_are_one_line(settings, message):
    with pytest.raises(ScenarioError) as error:
        Scenario.from_mapping(settings)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(Scenario().settings())), JSON, max_size=2))
def test_whatever_is_written_is_a_scenario_or_one_line(settings):
    try:
        Scenario.from_mapping(settings)
    except ScenarioError as error:
        assert str(error).startswith("scenario: ")
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@given(random=st.randoms(use_true_random=False))
def test_draws_are_amounts(name, random):
    names, _ = DISTRIBUTIONS[name]
    amount = draw_amount({name: [2.0, 3.0][: len(names)]}, lambda: random)
    assert 0 <= amount < float("inf")


def test_a_fixed_amount_draws_nothing():
    assert draw_amount(2.5, lambda: pytest.fail("a draw")) == 2.5


PAGE = (Path(__file__).parents[5] / "docs" / "scenario.md").read_text("utf-8")
WORDS = {"no limit": {}, "none": None, "for ever": None}
"""Defaults that the page says in words; an empty list is none, too."""


def documented(text):
    """The value that a cell of the page's table of keys stands for."""
    return WORDS[text] if text in WORDS else yaml.safe_load(text.strip("`"))


def test_the_documentation_tells_every_key_with_its_default():
    rows = re.findall(r"^\| `(\w+)`(?: \*)? \| (.*?) \|", PAGE.partition("## Faults")[0], re.M)
    told = {key: documented(cell) for key, cell in rows if key not in built_in_scenarios()}
    defaults = {
        key: list(value) or None if isinstance(value, tuple) else value
        for key, value in Scenario().settings().items()
    }
    assert told == defaults


def test_the_documentation_tells_every_fault():
    assert GRAMMAR in PAGE
    assert [name for name in (*built_in_scenarios(), *DISTRIBUTIONS) if name not in PAGE] == []
    assert f"N up to {MAX_SLOWDOWN:.0f}" in PAGE


def test_the_documentation_tells_what_is_noticed_of_a_worker():
    section = PAGE.partition("### Workers")[2].partition("### ")[0]
    rows = re.findall(r"^\| `([a-z ]+?)(?: Nx)?` \| .* \| (.*) \|$", section, re.M)
    told = dict(rows)
    assert set(told) == set(WorkerFaultKind)
    noticed = {kind: symptom for kind, (symptom, _) in node_faults.SYMPTOMS.items()}
    for kind, cell in told.items():
        assert cell.endswith(noticed[kind]) if kind in noticed else cell.startswith("nothing")
