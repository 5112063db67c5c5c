"""Google's messages, of either version, as models."""

import pytest

from tpuctl.api.tpu import decode
from tpuctl.api.tpu.versions import V2, V2ALPHA1
from tpuctl.models.node import Maintenance, Symptom

ZONE = "projects/demo/locations/us-west4-a"


def node(version, **fields):
    return version.message("Node", {"name": f"{ZONE}/nodes/n1", **fields})


def request(version, **fields):
    return version.message("QueuedResource", {"name": f"{ZONE}/queuedResources/q1", **fields})


@pytest.mark.parametrize("version", [V2, V2ALPHA1])
def test_a_list_and_a_description_of_a_node_agree(version):
    message = node(
        version,
        accelerator_type=f"{ZONE}/acceleratorTypes/v5litepod-16",
        state="PREEMPTED",
        scheduling_config={"spot": True},
        network_endpoints=[{"ip_address": "10.0.0.1", "access_config": {"external_ip": "1.2.3.4"}}],
        queued_resource=f"{ZONE}/queuedResources/q1",
        create_time={"seconds": 17},
    )
    (listed,) = decode.listed_nodes([message])
    found = decode.node(message)
    for name in listed.__dataclass_fields__:
        assert getattr(listed, name) == getattr(found, name)
    assert (found.queued_resource, found.accelerator_type) == ("q1", "v5litepod-16")
    assert [worker.external_ip for worker in found.workers] == ["1.2.3.4"]


def test_a_state_that_is_not_known_is_kept_as_it_came():
    message = node(V2)
    message.state = 99
    (listed,) = decode.listed_nodes([message])
    assert listed.state == decode.node(message).state == "99"


def test_what_is_wrong_with_a_node_and_what_is_announced():
    symptom = {"symptom_type": "HBM_OUT_OF_MEMORY", "details": "chip 2", "worker_id": "1"}
    maintenance = {
        "type_": "SCHEDULED",
        "can_reschedule": True,
        "maintenance_status": "PENDING",
        "window_start_time": "2026-12-01T00:00:00Z",
    }
    found = decode.node(
        node(
            V2ALPHA1,
            health="UNHEALTHY_MAINTENANCE",
            health_description="soon",
            symptoms=[symptom],
            upcoming_maintenance=maintenance,
            autocheckpoint_enabled=True,
        )
    )
    assert (found.health, found.health_description) == ("UNHEALTHY_MAINTENANCE", "soon")
    assert found.symptoms == (Symptom("HBM_OUT_OF_MEMORY", "chip 2", "1", 0),)
    assert found.maintenance == Maintenance(
        kind="SCHEDULED",
        status="PENDING",
        can_reschedule=True,
        window_start="2026-12-01T00:00:00Z",
        window_end="",
        latest_window_start="",
    )
    assert found.autocheckpoint


def test_v2_announces_nothing():
    found = decode.node(node(V2, multislice_node=True))
    assert (found.maintenance, found.autocheckpoint, found.is_multislice) == (None, False, True)


@pytest.mark.parametrize("version", [V2, V2ALPHA1])
@pytest.mark.parametrize(("prefix", "first"), [("s", "s-0"), ("", "q1-0")])
def test_the_nodes_of_a_multislice_that_are_not_made_yet_have_names(version, prefix, first):
    several = {version.multislice: {"node_count": 2, "node_id_prefix": prefix}}
    found = decode.queued_resource(request(version, tpu={"node_spec": [several]}))
    assert found.node_count == 2
    assert found.node_names[0] == first


PREEMPTIBLE = {"node_id": "n", "node": {"scheduling_config": {"preemptible": True}}}


@pytest.mark.parametrize(
    ("version", "fields", "provisioning"),
    [
        (V2, {}, "on-demand"),
        (V2, {"spot": {}}, "spot"),
        (V2, {"guaranteed": {}, "reservation_name": f"{ZONE}/reservations/-"}, "reserved"),
        (V2ALPHA1, {"guaranteed": {"reserved": True}}, "reserved"),
        (V2ALPHA1, {"guaranteed": {}}, "on-demand"),
        (V2ALPHA1, {"best_effort": {}}, "best-effort"),
        (V2ALPHA1, {"spot": {}}, "spot"),
        (V2, {"tpu": {"node_spec": [PREEMPTIBLE]}}, "spot"),
        (V2, {"tpu": {"node_spec": [PREEMPTIBLE]}, "reservation_name": "r"}, "reserved"),
    ],
)
def test_the_tier_of_a_request(version, fields, provisioning):
    assert decode.queued_resource(request(version, **fields)).provisioning == provisioning


@pytest.mark.parametrize(
    ("policy", "after_s", "until_s"),
    [
        ({}, None, None),
        ({"valid_after_time": {"seconds": 7}}, 7, None),
        ({"valid_until_time": {"seconds": 7}}, None, 7),
        ({"valid_until_duration": {"seconds": 7}}, None, 107),
        ({"valid_interval": {"start_time": {"seconds": 7}, "end_time": {"seconds": 9}}}, 7, 9),
    ],
)
def test_the_window_of_a_request(policy, after_s, until_s):
    created = {"seconds": 100}
    found = decode.queued_resource(request(V2, queueing_policy=policy, create_time=created))
    assert (found.valid_after_s, found.valid_until_s) == (after_s, until_s)
