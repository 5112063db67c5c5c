from dataclasses import replace

import pytest

from localsim.worker_facts import Maintenance, SlicePosition
from localsim.workers.metadata_tree import (
    RecordValue,
    WorkerState,
    build_tree,
    instance_attributes,
    instance_id,
    ssh_keys,
    tpu_env,
)
from localsim.workers.spec import SliceSpec
from tpuctl.catalog import generations

SPEC = SliceSpec(
    name="projects/demo/locations/us-west4-a/nodes/digits",
    node_id=4611686018427387905,
    project="demo",
    project_number=314159265358,
    zone="us-west4-a",
    accelerator_type="v5litepod-16",
    runtime_version="v2-alpha-tpuv5-lite",
    spot=True,
    addresses=("10.128.0.2", "10.128.0.3", "10.128.0.4", "10.128.0.5"),
    metadata={"team": "vision", "accelerator-type": "a lie"},
)


def env_of(accelerator_type: str) -> dict[str, str]:
    text = tpu_env(replace(SPEC, accelerator_type=accelerator_type), 3)
    return dict(line.split(": ", 1) for line in text.splitlines())


def test_tpu_env_of_a_v5e_slice():
    assert tpu_env(SPEC, 3) == (
        "ACCELERATOR_TYPE: 'v5litepod-16'\n"
        "ALT: 'false'\n"
        "CHIPS_PER_HOST_BOUNDS: '2,2,1'\n"
        "CONSUMER_PROJECT_ID: 'demo'\n"
        "CONSUMER_PROJECT_NUMBER: '314159265358'\n"
        "ENABLE_ICI_RESILIENCY: 'false'\n"
        "HOST_BOUNDS: '2,2,1'\n"
        "INFERENCE_MODE: 'false'\n"
        "MAINTENANCE_ACTION_FLAG: ''\n"
        "NODE_ID: 'digits'\n"
        "PREEMPTIBLE: 'true'\n"
        "RUNTIME_VERSION: 'v2-alpha-tpuv5-lite'\n"
        "TOPOLOGY: '4x4'\n"
        "TPU_CHIPS_PER_PROCESS_BOUNDS: '2,2,1'\n"
        "TPU_PROCESS_BOUNDS: '2,2,1'\n"
        "TPU_RUNTIME_METRICS_PORTS: '8431,8432,8433,8434'\n"
        "TPU_TOPOLOGY_ALT: 'false'\n"
        "TPU_TOPOLOGY_WRAP: 'false,false,false'\n"
        "TYPE: 'V5LITE_POD'\n"
        "UID: '4611686018427387905'\n"
        "WORKER_ID: '3'\n"
        "WRAP: 'false,false,false'\n"
        "ZONE: 'us-west4-a'\n"
    )


@pytest.mark.parametrize(
    ("accelerator_type", "chips", "hosts", "wrap"),
    [
        ("v5litepod-1", "'1,1,1'", "'1,1,1'", "'false,false,false'"),
        ("v5litepod-8", "'2,4,1'", "'1,1,1'", "'false,false,false'"),
        ("v5litepod-256", "'2,2,1'", "'8,8,1'", "'true,true,false'"),
        ("v4-256", "'2,2,1'", "'2,2,8'", "'true,true,true'"),  # as read on a real slice
        ("v4-8", "'2,2,1'", "'1,1,1'", "'false,false,false'"),
    ],
)
def test_bounds_follow_the_topology(accelerator_type: str, chips: str, hosts: str, wrap: str):
    env = env_of(accelerator_type)
    found = (env["CHIPS_PER_HOST_BOUNDS"], env["HOST_BOUNDS"], env["TPU_TOPOLOGY_WRAP"])
    assert found == (chips, hosts, wrap)


def test_the_hosts_of_every_known_type_are_its_workers():
    for kind in (kind for each in generations() if each.api_creatable for kind in each.types):
        x, y, z = env_of(kind.name)["HOST_BOUNDS"].strip("'").split(",")
        assert (kind.name, int(x) * int(y) * int(z)) == (kind.name, kind.workers)


def test_the_service_s_attributes_win_over_the_user_s():
    found = instance_attributes(SPEC, 0)
    assert found["accelerator-type"] == "v5litepod-16"
    assert found["team"] == "vision"
    assert found["instance-id"] == "digits"


def test_instance_ids_are_stable_and_fit_64_bits():
    assert instance_id("t1v-n-00000000-w-0") == instance_id("t1v-n-00000000-w-0")
    assert instance_id("t1v-n-00000000-w-0") != instance_id("t1v-n-00000000-w-1")
    assert 0 <= int(instance_id("t1v-n-00000000-w-0")) < 2**63


def test_preempted_is_spelled_as_google_does():
    shown = {now: instance(SPEC, is_preempted=now)["preempted"] for now in (False, True)}
    assert shown == {False: "FALSE", True: "TRUE"}


def test_the_node_s_service_account_is_the_default_one():
    account = replace(SPEC, service_account="me@demo.iam.gserviceaccount.com", scopes=("a", "b"))
    found = instance(account)["service-accounts"]
    assert set(found) == {"default", "me@demo.iam.gserviceaccount.com"}
    assert (found["default"]["email"], found["default"]["scopes"]) == (
        "me@demo.iam.gserviceaccount.com",
        ("a", "b"),
    )


def test_maintenance_is_announced_then_begins_then_is_over():
    pending = Maintenance(
        type="SCHEDULED",
        can_reschedule=True,
        window_start_s=604_800.0,
        window_end_s=612_000.9,
        latest_window_start_s=691_200.0,
        status="PENDING",
    )
    ongoing = replace(pending, can_reschedule=False, status="ONGOING")
    found = {
        when: (
            instance(replace(SPEC, maintenance=upcoming))["maintenance-event"],
            instance(replace(SPEC, maintenance=upcoming))["upcoming-maintenance"],
            "unhealthy-maintenance" in tpu_env(replace(SPEC, maintenance=upcoming), 0),
        )
        for when, upcoming in {"before": pending, "during": ongoing, "after": None}.items()
    }
    window = {
        "latest_window_start_time": "1970-01-09T00:00:00Z",
        "type": "SCHEDULED",
        "window_end_time": "1970-01-08T02:00:00Z",
        "window_start_time": "1970-01-08T00:00:00Z",
    }
    before = RecordValue({"can_reschedule": "true", "maintenance_status": "PENDING", **window})
    during = RecordValue({"can_reschedule": "false", "maintenance_status": "ONGOING", **window})
    assert found == {
        "before": ("NONE", before, False),
        "during": ("TERMINATE_ON_HOST_MAINTENANCE", during, True),
        "after": ("NONE", "NONE", False),
    }


def test_an_external_address_is_an_access_configuration():
    external = replace(SPEC, external_addresses=("34.1.0.1", "34.1.0.2", "34.1.0.3", "34.1.0.4"))
    without, given = (
        instance(each, index=2)["network-interfaces"]["0"] for each in (SPEC, external)
    )
    assert without == {"access-configs": {}, "ip": "10.128.0.4"}
    access = {"external-ip": "34.1.0.3", "type": "ONE_TO_ONE_NAT"}
    assert given == {"access-configs": {"0": access}, "ip": "10.128.0.4"}


def instance(spec: SliceSpec, *, index: int = 0, is_preempted: bool = False) -> dict:
    present = WorkerState(
        hostname="h", is_preempted=is_preempted, access_token="t", guest_attributes={}
    )
    return build_tree(spec, index, present)["instance"]


def test_a_slice_of_several_knows_the_others():
    place = SlicePosition(
        "projects/demo/locations/us-west4-a/queuedResources/q", 1, 2, "10.128.0.9"
    )
    assert tpu_env(replace(SPEC, multislice=place), 0).splitlines()[-3:] == [
        "MEGASCALE_COORDINATOR_ADDRESS: '10.128.0.9:8081'",
        "MEGASCALE_NUM_SLICES: '2'",
        "MEGASCALE_SLICE_ID: '1'",
    ]
    lost = replace(SPEC, multislice=replace(place, coordinator=""))
    assert "MEGASCALE_COORDINATOR_ADDRESS: ''\n" in tpu_env(lost, 0)


@pytest.mark.parametrize(
    ("own", "of_project", "block", "keys"),
    [
        ("", "", "", ""),
        ("a:k1", "", "", "a:k1"),
        ("", "b:k2", "", "b:k2"),
        ("a:k1", "b:k2", "", "a:k1\nb:k2"),
        ("a:k1", "b:k2", "FALSE", "a:k1\nb:k2"),
        ("a:k1", "b:k2", "TRUE", "a:k1"),
        ("", "b:k2", "true", ""),
    ],
)
def test_keys_of_the_project_count_unless_the_node_blocks_them(own, of_project, block, keys):
    metadata = {"ssh-keys": own, "block-project-ssh-keys": block}
    project = {"ssh-keys": of_project}
    assert ssh_keys(replace(SPEC, metadata=metadata, project_metadata=project)) == keys


def test_the_project_s_metadata_is_shown_beside_the_node_s():
    present = WorkerState("t1v-n-0-w-0", is_preempted=False, access_token="", guest_attributes={})  # noqa: S106
    shown = build_tree(replace(SPEC, project_metadata={"team": "speech"}), 0, present)
    assert shown["project"]["attributes"] == {"team": "speech"}
    assert shown["instance"]["attributes"]["team"] == "vision"


def test_the_subnet_and_its_gateway_come_from_the_addresses():
    there = replace(SPEC, addresses=("10.129.255.253",))
    assert (str(there.subnet), there.gateway) == ("10.129.0.0/16", "10.129.0.1")
