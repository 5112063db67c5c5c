"""What a client may ask of a node, field by field."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.nodes import (
    AcceleratorConfig,
    BootDisk,
    DataDisk,
    Network,
    NodeSpec,
    Scheduling,
    ServiceAccount,
)
from localsim.rules.nodes.node_validation import checked_node, is_runtime_version
from tpuctl import catalog
from unit.localsim.rules.cloud_rig import SINGLE, ZONE

POD = replace(SINGLE, accelerator_type="v5litepod-16")
DISK = "projects/demo/zones/us-west4-a/disks/data"
KEY = "projects/p/locations/global/keyRings/r/cryptoKeys/k"
CLOUD = "https://www.googleapis.com/auth/cloud-platform"


def disks(*, source=DISK, mode="READ_ONLY", worker_ids=()):
    return {"data_disks": (DataDisk(source, mode, worker_ids),)}


def scheduling(**fields):
    return {"scheduling": Scheduling(**fields)}


@pytest.mark.parametrize(
    "fields",
    [
        {"description": "x" * 512},
        {"cidr_block": "10.1.2.0/29"},
        {"cidr_block": "192.168.0.0/16"},
        {"labels": {f"k{n}": "" for n in range(64)}},
        {"metadata": {"startup-script": "x" * 256 * 1024, "enable-oslogin": "TRUE"}},
        {"tags": ("a", "http-server")},
        {"network": Network("default", "default")},
        {"network": Network("projects/p/global/networks/n", "projects/p/regions/r/subnetworks/s")},
        {"network": Network("https://www.googleapis.com/compute/v1/projects/p/global/networks/n")},
        {"networks": (Network("a"), Network("b", queue_count=4))},
        {"service_account": ServiceAccount()},
        {"service_account": ServiceAccount("default", (CLOUD,))},
        {"service_account": ServiceAccount("7-compute@developer.gserviceaccount.com")},
        {"boot_disk": BootDisk(KEY)},
        {"boot_disk": BootDisk(f"{KEY}/cryptoKeyVersions/1", enable_confidential_compute=True)},
        disks(),
        disks(source=f"https://www.googleapis.com/compute/v1/{DISK}"),
        disks(source="projects/demo/regions/us-west4/disks/data"),
        disks(mode="READ_WRITE", worker_ids=("3",)),
        scheduling(provisioning_model="STANDARD"),
        scheduling(provisioning_model="PROVISIONING_MODEL_UNSPECIFIED", preemptible=True),
        scheduling(reserved=True, reservation_name=f"{ZONE}/reservations/-"),
        scheduling(provisioning_model="RESERVATION_BOUND", reservation_name="r"),
    ],
)
def test_what_can_be_asked_for(fields):
    asked = replace(POD, **fields)
    accepted = checked_node(ZONE, asked)
    assert accepted.accelerator_config == AcceleratorConfig("V5LITE_POD", "4x4")
    for name in set(fields) - {"scheduling"}:
        assert getattr(accepted, name) == getattr(asked, name)


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"runtime_version": ""}, "'runtime_version' must be set"),
        ({"runtime_version": "nope"}, "runtime version 'nope' could not be found"),
        ({"accelerator_type": ""}, "Exactly one of"),
        ({"accelerator_config": AcceleratorConfig("V5LITE_POD", "4x4")}, "Exactly one of"),
        ({"accelerator_type": "v4-8"}, r"type 'v4-8' could not be found among .* 'us-west4-a'"),
        ({"accelerator_type": "v5litepod-17"}, r"type 'v5litepod-17' .* zone 'us-west4-a'"),
        ({"description": "x" * 513}, "512"),
        ({"cidr_block": "10.0.0.0"}, "must be a private block of /29 or larger"),
        ({"cidr_block": "10.0.0.0/30"}, "/29"),
        ({"cidr_block": "10.0.0.1/29"}, "Invalid CIDR block '10.0.0.1/29'"),
        ({"cidr_block": "8.8.8.0/24"}, "private"),
        ({"cidr_block": "ten"}, "Invalid CIDR block 'ten'"),
        ({"labels": {f"k{n}": "" for n in range(65)}}, "64"),
        ({"labels": {"": "x"}}, "Invalid label ''"),
        ({"labels": {"k": "Value"}}, "Invalid label 'k': 'Value'"),
        ({"labels": {"k" * 64: ""}}, "Invalid label"),
        ({"metadata": {"a.b": ""}}, "Invalid metadata key 'a.b'"),
        ({"metadata": {"k" * 128: ""}}, "Invalid metadata key"),
        ({"metadata": {"k": "x" * (256 * 1024 + 1)}}, "at most 262144 bytes"),
        ({"metadata": {k: "x" * 200 * 1024 for k in "abc"}}, "at most 524288 bytes"),
        ({"tags": ("Up",)}, "Invalid tag 'Up'"),
        ({"tags": ("a", "a")}, "each of them once"),
        ({"tags": tuple(f"t{n}" for n in range(65))}, "at most 64 tags"),
        ({"network": Network(), "networks": (Network(),)}, "Only one of 'network_config'"),
        ({"network": Network("Bad Name")}, "Invalid network 'Bad Name'"),
        ({"networks": (Network(subnetwork="../s"),)}, "Invalid subnetwork '../s'"),
        ({"network": Network(queue_count=-1)}, "queue count"),
        ({"service_account": ServiceAccount("me")}, "Invalid service account 'me'"),
        ({"service_account": ServiceAccount("", ("storage",))}, "Invalid scope 'storage'"),
        ({"boot_disk": BootDisk("key")}, "Invalid KMS key name 'key'"),
        (disks(source="data"), "Invalid source disk 'data'"),
        (disks(source=DISK.replace("us-west4-a", "us-west4-b")), "not in the zone 'us-west4-a'"),
        (disks(mode="READ_WRITE"), "READ_ONLY only"),
        (disks(mode="DISK_MODE_UNSPECIFIED"), "READ_ONLY only"),
        (disks(worker_ids=("4",)), "no worker '4'"),
        ({"data_disks": (DataDisk(DISK, "READ_ONLY"),) * 2}, "only once"),
        (
            {"data_disks": tuple(DataDisk(f"{DISK}{n}", "READ_ONLY") for n in range(128))},
            "at most 127 data disks",
        ),
        (scheduling(preemptible=True, spot=True), "Only one of"),
        (scheduling(reserved=True, spot=True), "Only one of"),
        (scheduling(provisioning_model="CHEAP"), "Invalid provisioning model 'CHEAP'"),
        (scheduling(provisioning_model="STANDARD", spot=True), "does not go with 'spot'"),
        (scheduling(provisioning_model="SPOT", preemptible=True), "'preemptible'"),
        (scheduling(provisioning_model="RESERVATION_BOUND"), "needs a 'reservation_name'"),
        (scheduling(reservation_name="r"), "needs the provisioning model RESERVATION_BOUND"),
    ],
)
def test_what_cannot_be_asked_for_is_an_invalid_argument(fields, cause):
    with pytest.raises(CloudError, match=rf"{cause}.*\[EID: 0x[0-9a-f]{{16}}\]") as refusal:
        checked_node(ZONE, replace(POD, **fields))
    assert refusal.value.code == Code.INVALID_ARGUMENT
    assert len(refusal.value.message.splitlines()) == 1


def test_a_type_may_be_a_path_or_in_capitals_or_a_topology():
    path = f"{ZONE}/acceleratorTypes/v5litepod-16"
    topology = AcceleratorConfig("V5LITE_POD", "4x4")
    for spec in (
        replace(POD, accelerator_type=path),
        replace(POD, accelerator_type="V5LitePod-16"),
        replace(POD, accelerator_type="", accelerator_config=topology),
    ):
        accepted = checked_node(ZONE, spec)
        assert (accepted.accelerator_type, accepted.accelerator_config) == (
            "v5litepod-16",
            topology,
        )


@pytest.mark.parametrize(
    ("kind", "topology"), [("V5LITE_POD", "3x3"), ("TPU7X", "2x2x1"), ("", "")]
)
def test_a_topology_must_be_one_of_the_type(kind, topology):
    spec = replace(POD, accelerator_type="", accelerator_config=AcceleratorConfig(kind, topology))
    with pytest.raises(CloudError, match=f"type '{kind}' and topology '{topology}' could not be"):
        checked_node(ZONE, spec)


def test_a_disk_without_a_mode_is_attached_for_writing():
    (disk,) = checked_node(ZONE, replace(SINGLE, **disks(mode="DISK_MODE_UNSPECIFIED"))).data_disks
    assert disk.mode == "READ_WRITE"


def test_a_provisioning_model_sets_the_older_flags():
    def accepted(**fields):
        return checked_node(ZONE, replace(POD, **scheduling(**fields))).scheduling

    assert accepted(provisioning_model="SPOT").spot
    assert accepted(provisioning_model="RESERVATION_BOUND", reservation_name="r").reserved


@pytest.mark.parametrize(
    "text",
    [
        "tpu-vm-tf-2.16.1-pod-pjrt",
        "tpu-vm-tf-2.15.0-se",
        "tpu-vm-tf-nightly-pod",
        "tpu-vm-base",
        "tpu-vm-v4-base",
        "tpu-ubuntu2204-base",
        "v2-alpha",
        "v2-alpha-pod",
        "v2-alpha-tpuv5-lite",
        "v6e-ubuntu-2404",
        *catalog.runtime_versions(),
    ],
)
def test_runtime_versions_of_the_known_families_are_taken(text):
    assert is_runtime_version(text)


@given(st.text(max_size=40))
def test_any_text_is_a_value_of_a_field_or_an_invalid_argument(text):
    for spec in (
        replace(POD, description=text),
        replace(POD, cidr_block=text),
        replace(POD, runtime_version=text),
        replace(POD, labels={text: text}),
        replace(POD, metadata={text: text}),
        replace(POD, tags=(text,)),
        replace(POD, network=Network(text, text)),
        replace(POD, service_account=ServiceAccount(text, (text,))),
        replace(POD, boot_disk=BootDisk(text)),
        NodeSpec(text, "v2-alpha"),
        replace(POD, **disks(source=text, mode=text)),
        replace(POD, **scheduling(provisioning_model=text, reservation_name=text)),
    ):
        try:
            checked_node(ZONE, spec)
        except CloudError as error:
            assert error.code == Code.INVALID_ARGUMENT
