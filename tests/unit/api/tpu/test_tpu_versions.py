"""Calls speak v2, and v2alpha1 for exactly what only it has; each in its own words."""

import pytest
from google.protobuf import json_format

from tpuctl.api.tpu import encode
from tpuctl.api.tpu.versions import (
    ONLY_V2ALPHA1,
    V2,
    V2ALPHA1,
    node_needs_rest,
    request_needs_rest,
    version_for,
)
from tpuctl.models.node import DataDisk, DiskMode, NodeSpec, Provisioning
from tpuctl.models.queued_resource import QueuedResourceSpec, Queueing

OTHERS = "projects/p/locations/us-west4-a/reservations/r"
PARENT = "projects/demo/locations/us-west4-a"


def node(**extra):
    return NodeSpec("n1", "us-west4-a", "v5litepod-16", "v2-alpha-tpuv5-lite", **extra)


def request(version, spec, now_s=1_700_000_000.0):
    fields = encode.request_fields(spec, PARENT, version, now_s)
    return json_format.MessageToDict(version.message("QueuedResource", fields))


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        (node(), V2),
        (node(provisioning=Provisioning.SPOT), V2),
        (node(provisioning=Provisioning.RESERVED), V2),
        (node(tags=("a",), scopes=("s",), description="d"), V2),
        (node(autocheckpoint=True), V2ALPHA1),
        (node(provisioning=Provisioning.BEST_EFFORT), V2ALPHA1),
        (node(provisioning=Provisioning.FLEX_START), V2ALPHA1),
    ],
)
def test_a_table_decides_the_version(spec, version):
    assert version_for(spec) is version


def test_only_flex_start_and_a_node_s_reservation_go_as_json():
    flex, named = node(provisioning=Provisioning.FLEX_START), node(reservation="r1")
    assert [request_needs_rest(QueuedResourceSpec("q1", each)) for each in (flex, named)] == [
        True,
        False,
    ]
    assert [node_needs_rest(each) for each in (node(), named)] == [False, True]


def test_what_only_v2alpha1_has_is_not_in_the_messages_of_v2():
    for field in ONLY_V2ALPHA1:
        kind, _, name = field.partition(".")
        assert name not in V2.reply_class(kind).DESCRIPTOR.fields_by_name


def test_a_request_for_a_spot_slice():
    spec = QueuedResourceSpec("q1", node(provisioning=Provisioning.SPOT))
    for version in (V2, V2ALPHA1):
        found = request(version, spec)
        assert found["spot"] == {}
        (wanted,) = found["tpu"]["nodeSpec"]
        assert (wanted["nodeId"], wanted["parent"]) == ("n1", PARENT)


def test_the_same_multislice_has_another_name_and_number_in_each_version():
    spec = QueuedResourceSpec("q1", node(), node_count=3)
    (v2,) = request(V2, spec)["tpu"]["nodeSpec"]
    (alpha,) = request(V2ALPHA1, spec)["tpu"]["nodeSpec"]
    several = {"nodeCount": 3, "nodeIdPrefix": "n1"}
    assert v2["multisliceParams"] == alpha["multiNodeParams"] == several
    assert "nodeId" not in v2


@pytest.mark.parametrize(
    ("version", "reservation", "expected"),
    [
        (V2, None, {"guaranteed": {}, "reservationName": f"{PARENT}/reservations/-"}),
        (V2ALPHA1, None, {"guaranteed": {"reserved": True}}),
        (V2, "r1", {"guaranteed": {}, "reservationName": f"{PARENT}/reservations/r1"}),
        (V2, OTHERS, {"guaranteed": {}, "reservationName": OTHERS}),
    ],
)
def test_reserved_capacity_as_each_version_says_it(version, reservation, expected):
    reserved = node(provisioning=Provisioning.RESERVED, reservation=reservation)
    spec = QueuedResourceSpec("q1", reserved)
    found = request(version, spec)
    assert {key: value for key, value in found.items() if key != "tpu"} == expected


@pytest.mark.parametrize(
    ("queueing", "expected"),
    [
        (Queueing(after_duration_s=90), {"validAfterDuration": "90s"}),
        (Queueing(until_s=1_700_003_600.0), {"validUntilTime": "2023-11-14T23:13:20Z"}),
        (
            Queueing(after_duration_s=60, until_s=1_700_003_600.0),
            {
                "validInterval": {
                    "startTime": "2023-11-14T22:14:20Z",
                    "endTime": "2023-11-14T23:13:20Z",
                }
            },
        ),
    ],
)
def test_one_end_is_told_as_it_is_and_two_as_an_interval(queueing, expected):
    spec = QueuedResourceSpec("q1", node(), queueing=queueing)
    assert request(V2, spec)["queueingPolicy"] == expected


def test_everything_about_a_node():
    spec = node(
        provisioning=Provisioning.SPOT,
        network="n",
        subnetwork="s",
        internal_ips=True,
        service_account="a@b",
        scopes=("scope",),
        tags=("web",),
        data_disks=(DataDisk("projects/p/zones/z/disks/d", DiskMode.READ_ONLY),),
        description="mine",
        autocheckpoint=True,
    )
    found = json_format.MessageToDict(V2ALPHA1.message("Node", encode.node_fields(spec)))
    assert found == {
        "acceleratorType": "v5litepod-16",
        "runtimeVersion": "v2-alpha-tpuv5-lite",
        "networkConfig": {"network": "n", "subnetwork": "s"},
        "serviceAccount": {"email": "a@b", "scope": ["scope"]},
        "tags": ["web"],
        "dataDisks": [{"sourceDisk": "projects/p/zones/z/disks/d", "mode": "READ_ONLY"}],
        "description": "mine",
        "autocheckpointEnabled": True,
        "schedulingConfig": {"spot": True},
    }
