"""What a scenario may say of the project around Cloud TPU."""

import pytest

from localsim.rules.scenario.project_checks import DEFAULT_RULES, firewall_rules, lets_ssh_in
from localsim.rules.scenario.scenario import Scenario, ScenarioError
from localsim.server.components import bucket_properties


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"disabled_apis": ["tpu.googleapis.com"]}, "disabled_apis[0] must be cloudbilling"),
        ({"member_roles": ["allUsers"]}, "member_roles must map members to roles"),
        ({"member_roles": {"allUsers": ["roles/king"]}}, "member_roles.allUsers[0] must be roles/"),
        ({"member_roles": {"": []}}, "member_roles must be a text, not ''"),
        (
            {"service_accounts": {"default": "gone"}},
            "default must be enabled or disabled",
        ),
        ({"service_accounts": {"a@b": "absent"}}, "takes IDs of accounts, not 'a@b'"),
        ({"firewalls": [{"name": "in"}]}, "firewalls[0] needs allow"),
        ({"firewalls": [{"name": "in", "allow": [], "deny": []}]}, "unknown key 'deny'"),
        ({"firewalls": [{"name": "in", "allow": ["tcp:ssh"]}]}, "must be like tcp:22, not"),
        ({"routers": [{"name": "r"}]}, "routers[0] needs region"),
        ({"subnets_without_google_access": ["mars"]}, "unknown region 'mars'"),
        ({"bucket_location": 7}, "bucket_location must be a text"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_its_key(settings, text):
    with pytest.raises(ScenarioError) as refused:
        Scenario.from_mapping(settings)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("rules", "is_open"),
    [
        (None, True),
        ([], False),
        ([{"allow": ["tcp:22"]}], True),
        ([{"allow": ["tcp"]}], True),
        ([{"allow": ["all"]}], True),
        ([{"allow": ["udp:22", "tcp:80-443"]}], False),
        ([{"allow": ["tcp:1-22"], "disabled": True}], False),
    ],
    ids=str,
)
def test_ssh_is_let_in_by_a_rule_that_names_its_port(rules, is_open):
    assert lets_ssh_in(firewall_rules(rules)) == is_open


def test_a_new_project_has_the_rules_of_google():
    assert [rule["name"] for rule in DEFAULT_RULES] == [
        *("default-allow-icmp", "default-allow-internal"),
        *("default-allow-rdp", "default-allow-ssh"),
    ]


def test_the_first_bucket_lies_where_the_scenario_says():
    elsewhere = Scenario.from_mapping({"bucket_location": "EUROPE-WEST4"})
    assert bucket_properties(elsewhere) == {"location": "EUROPE-WEST4"}
    assert bucket_properties(Scenario()) == {"location": "US-WEST4"}
