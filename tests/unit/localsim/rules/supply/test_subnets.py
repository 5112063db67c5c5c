"""A subnet per zone, and who gets which address in it."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.state import subnets
from unit.localsim.rules.cloud_rig import SINGLE, SPOT, ZONE
from unit.localsim.rules.requests.requests_asked import asked, file, state

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

SOUTH = "projects/demo/locations/us-south1-a"


def addresses(rig, zone, node_id, spec=SINGLE):
    rig.cloud.create_node(zone, node_id, spec)
    rig.live(1)
    return rig.cloud.get_node(f"{zone}/nodes/{node_id}").addresses


def test_every_zone_has_its_own_and_keeps_it(rig):
    assert addresses(rig, ZONE, "a") == ("10.128.0.2",)
    assert addresses(rig, SOUTH, "a") == ("10.129.0.2",)
    rig.restart()
    assert addresses(rig, SOUTH, "b") == ("10.129.0.3",)
    assert addresses(rig, ZONE, "b") == ("10.128.0.3",)


def test_the_first_and_the_last_two_are_not_given_out_and_those_in_use_neither(rig, monkeypatch):
    monkeypatch.setattr(subnets, "USABLE", 3)
    assert addresses(rig, ZONE, "a") == ("10.128.0.2",)
    assert addresses(rig, ZONE, "b") == ("10.128.0.3",)
    rig.cloud.delete_node(f"{ZONE}/nodes/b")
    rig.live(1)
    assert addresses(rig, ZONE, "c") == ("10.128.0.4",)
    assert addresses(rig, ZONE, "d") == ("10.128.0.3",)  # the counter has wrapped


def test_a_full_subnet_refuses_nodes_and_fails_requests(rig, monkeypatch):
    monkeypatch.setattr(subnets, "USABLE", 5)
    assert len(addresses(rig, ZONE, "a", SPOT)) == 4
    with pytest.raises(CloudError, match="IP_SPACE_EXHAUSTED") as error:
        rig.cloud.create_node(ZONE, "b", SPOT)
    assert error.value.code == Code.RESOURCE_EXHAUSTED
    file(rig, "q", asked("b"))
    rig.live(5)
    assert state(rig) == "FAILED"
    assert len(addresses(rig, SOUTH, "b", SPOT)) == 4


def test_addresses_from_before_there_were_subnets_are_kept_and_not_given_out_again(rig):
    with rig.cloud.batch():
        rig.cloud._state.count("addresses", 7)  # what an older version has handed out
    assert addresses(rig, ZONE, "a") == ("10.128.0.9",)
