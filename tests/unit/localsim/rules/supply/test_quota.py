"""Quota: which id, how much, who holds it, and what happens above it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.model import quota_pools
from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.nodes import Scheduling
from localsim.rules.model.queued_resources import Tier
from tpuctl import catalog
from unit.localsim.rules.cloud_rig import ZONE
from unit.localsim.rules.requests.requests_asked import (
    WITH_EXTERNAL,
    asked,
    file,
    node,
    request,
    state,
)

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

LITEPOD = "TPUV5sLitepodPerProjectPerZoneForTPUAPI"
SPOT_LITEPOD = "TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI"


@pytest.mark.parametrize(
    ("accelerator_type", "preemptible", "quota_id", "unit"),
    [
        ("v2-32", False, "TPUV2sPodPerProjectPerRegionForTPUAPI", "cores"),
        ("v4-8", True, "TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI", "cores"),
        ("v5litepod-16", False, LITEPOD, "chips"),
        ("v5litepod-16", True, SPOT_LITEPOD, "chips"),
        ("v5litepod-8", False, "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI", "chips"),
        ("v5p-8", False, "TPUV5PPerProjectPerZoneForTPUAPI", "cores"),
        ("v6e-8", False, "TPUV6EPerProjectPerZoneForTPUAPI", "chips"),
        ("v6e-16", True, "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI", "chips"),
    ],
)
def test_the_ids_seen_in_the_field(accelerator_type, preemptible, quota_id, unit):
    found = quota_pools.pool(accelerator_type, preemptible=preemptible)
    assert (found.quota_id, found.unit) == (quota_id, unit)


@given(st.sampled_from(catalog.accelerator_types()), st.booleans())
def test_every_type_counts_against_one_quota_in_its_own_unit(kind, spot):
    spec = node(kind.name, scheduling=Scheduling(spot=spot))
    (((quota_id, location), amount),) = quota_pools.needed_quota("us-west4-a", spec).items()
    pool = quota_pools.pool(kind.name, preemptible=spot)
    assert quota_id == pool.quota_id in quota_pools.quota_ids()
    assert location == {"zone": "us-west4-a", "region": "us-west4"}[pool.scope]
    assert amount == {"chips": kind.chips, "cores": kind.tensorcores}[pool.unit]


def usage(rig, quota_id=LITEPOD, place="us-west4-a"):
    (found,) = [
        each
        for each in rig.cloud.quotas()
        if each.quota_id == quota_id and place in (each.zone, each.region)
    ]
    return found


def test_a_node_above_the_quota_is_refused_at_once(rigged):
    rig = rigged(quota={LITEPOD: 16})
    rig.cloud.create_node(ZONE, "a", node())
    with pytest.raises(CloudError) as error:
        rig.cloud.create_node(ZONE, "b", node())
    assert error.value.code == Code.RESOURCE_EXHAUSTED
    assert error.value.message.startswith(
        f"Quota limit '{LITEPOD}' has been exceeded. "
        "Limit: 16 in region us-west4, zone us-west4-a. [EID: 0x"
    )
    rig.cloud.create_node(ZONE, "spot", node(scheduling=Scheduling(spot=True)))
    rig.cloud.create_node(ZONE, "serving", node("v5litepod-8"))
    found = usage(rig)
    assert (found.limit, found.usage, found.holders) == (16, 16, (f"{ZONE}/nodes/a",))


def test_a_limit_may_be_of_one_zone(rigged):
    rig = rigged(quota={LITEPOD: {"us-west4-a": 0}})
    with pytest.raises(CloudError, match="Limit: 0"):
        rig.cloud.create_node(ZONE, "a", node())
    rig.cloud.create_node("projects/demo/locations/us-south1-a", "a", node())
    assert usage(rig, place="us-south1-a").limit is None


def test_a_request_above_the_quota_fails(rigged):
    rig = rigged(quota={SPOT_LITEPOD: 16})
    file(rig, "q", asked("a", tier=Tier.SPOT))
    file(rig, "over", asked("b", tier=Tier.SPOT))
    rig.live(2)
    found = request(rig, "over")
    assert (found.state, found.failure.code) == ("FAILED", Code.RESOURCE_EXHAUSTED)
    assert SPOT_LITEPOD in found.failure.message
    assert usage(rig, SPOT_LITEPOD).holders == (f"{ZONE}/queuedResources/q",)
    wide = asked(slices=2, tier=Tier.SPOT)
    rig.cloud.delete_queued_resource(f"{ZONE}/queuedResources/q", force=True)
    rig.live(1)
    file(rig, "wide", wide)
    rig.live(2)
    assert state(rig, "wide") == "FAILED"


def test_what_was_preempted_holds_quota_until_it_is_deleted(rigged):
    rig = rigged(quota={SPOT_LITEPOD: 32})
    rig.ready("alone")
    file(rig, "q", asked("owned", tier=Tier.SPOT))
    rig.live(2)
    for name in ("alone", "owned"):
        rig.cloud.preempt(f"{ZONE}/nodes/{name}", 0)
    rig.live(1)
    assert (state(rig, "q"), usage(rig, SPOT_LITEPOD).usage) == ("SUSPENDED", 32)
    rig.cloud.delete_node(f"{ZONE}/nodes/alone")
    rig.cloud.delete_node(f"{ZONE}/nodes/owned")  # its owner goes on to hold
    rig.live(1)
    assert usage(rig, SPOT_LITEPOD).holders == (f"{ZONE}/queuedResources/q",)
    rig.restart()
    assert usage(rig, SPOT_LITEPOD).usage == 16
    rig.cloud.delete_queued_resource(f"{ZONE}/queuedResources/q")
    rig.live(1)
    assert usage(rig, SPOT_LITEPOD).usage == 0


def test_a_request_that_failed_while_it_was_provisioned_holds_quota(rig):
    file(rig, "q", asked("a"))
    rig.tick(0.5)
    rig.cloud.delete_node(f"{ZONE}/nodes/a")
    rig.live(1)
    assert (state(rig, "q"), usage(rig).usage) == ("FAILED", 16)


def test_a_request_that_waits_holds_none(rigged):
    rig = rigged(capacity={"us-west4-a": {"v5litepod-16": 0}}, quota={LITEPOD: 16})
    file(rig, "a")
    file(rig, "b")
    rig.live(1)
    assert (state(rig, "a"), state(rig, "b")) == ("WAITING_FOR_RESOURCES",) * 2
    assert usage(rig).usage == 0


def test_a_reset_does_not_need_the_quota_twice(rigged):
    rig = rigged(quota={LITEPOD: 16})
    file(rig, "q")
    rig.live(2)
    rig.cloud.reset_queued_resource(f"{ZONE}/queuedResources/q")
    rig.live(3)
    assert state(rig, "q") == "ACTIVE"


def test_external_addresses_have_a_limit_of_their_own(rigged):
    rig = rigged(quota={"IN_USE_ADDRESSES": 8})
    wide = node("v5litepod-64", network=WITH_EXTERNAL)
    file(rig, "wide", asked("w", spec=wide))
    operation = rig.cloud.create_node(ZONE, "wide", wide)
    file(rig, "fits", asked("f", spec=node(network=WITH_EXTERNAL)))
    file(rig, "internal", asked("i", spec=node("v5litepod-64")))
    rig.live(2)
    found = request(rig, "wide")
    assert (found.state, "IN_USE_ADDRESSES" in found.failure.message) == ("FAILED", True)
    assert rig.outcome(operation) == "RESOURCE_EXHAUSTED"
    assert (state(rig, "fits"), state(rig, "internal")) == ("ACTIVE", "ACTIVE")
    assert usage(rig, "IN_USE_ADDRESSES", "us-west4").usage == 4
    rig.cloud.delete_queued_resource(f"{ZONE}/queuedResources/fits", force=True)
    rig.live(1)
    assert usage(rig, "IN_USE_ADDRESSES", "us-west4").usage == 0


def test_a_stopped_node_needs_its_external_addresses_again(rigged):
    rig = rigged(quota={"IN_USE_ADDRESSES": 1})
    spec = node("v5litepod-4", network=WITH_EXTERNAL)
    rig.ready("a", spec)
    rig.cloud.stop_node(f"{ZONE}/nodes/a")
    rig.cloud.mark_slice_stopped(f"{ZONE}/nodes/a")
    assert rig.ready("b", spec).state == "READY"
    with pytest.raises(CloudError, match="IN_USE_ADDRESSES"):
        rig.cloud.start_node(f"{ZONE}/nodes/a")
    assert rig.state(f"{ZONE}/nodes/a") == "STOPPED"
    rig.cloud.delete_node(f"{ZONE}/nodes/b")
    rig.live(1)
    rig.cloud.start_node(f"{ZONE}/nodes/a")
