"""What gcloud is asked to do, and what must come of it: one story a behaviour.

Each story uses resources of its own, since several are told at once.
"""

from collections.abc import Callable

from client.tpu.tpu_service import ZONE

from system.clients.gcloud_cli import Gcloud

ONE = ("--accelerator-type=v5litepod-4", "--version=v2-alpha-tpuv5-lite")
FOUR = ("--accelerator-type=v5litepod-16", "--version=v2-alpha-tpuv5-lite")
WANTED = ("--accelerator-type=v5litepod-4", "--runtime-version=v2-alpha-tpuv5-lite")

Story = Callable[[Gcloud], None]


def a_node_from_create_to_delete(gcloud):
    made = gcloud(
        *("tpu-vm", "create", "whole", *FOUR, "--spot", "--metadata=k=v", "--labels=team=vision"),
        *("--description=for tests", "--tags=a,b", "--network=net", "--subnetwork=sub"),
        *("--internal-ips", "--shielded-secure-boot", "--range=10.2.0.0/29"),
        *(
            "--service-account=me@demo.iam.gserviceaccount.com",
            "--scopes=https://www.googleapis.com/auth/cloud-platform",
        ),
        "--data-disk=source=projects/demo/zones/us-west4-a/disks/d,mode=read-only",
    ).json
    assert (made["state"], len(made["networkEndpoints"])) == ("READY", 4)
    node = gcloud("tpu-vm", "describe", "whole").json
    assert node["schedulingConfig"]["spot"] is True
    assert (node["metadata"], node["labels"]) == ({"k": "v"}, {"team": "vision"})
    assert (node["description"], node["tags"]) == ("for tests", ["a", "b"])
    subnet = "projects/demo/regions/us-west4/subnetworks/sub"
    assert node["networkConfig"]["subnetwork"] == subnet
    assert "accessConfig" not in node["networkEndpoints"][0]
    assert node["shieldedInstanceConfig"] == {"enableSecureBoot": True}
    assert (node["cidrBlock"], node["dataDisks"][0]["mode"]) == ("10.2.0.0/29", "READ_ONLY")
    assert node["serviceAccount"]["email"] == "me@demo.iam.gserviceaccount.com"
    assert "whole" in [each["name"].rpartition("/")[2] for each in gcloud("tpu-vm", "list").json]
    told = gcloud("tpu-vm", "get-guest-attributes", "whole").json
    keys = [each["key"] for each in told]
    assert (keys.count("hostname"), keys.count("ssh-ed25519")) == (4, 4)
    gcloud("tpu-vm", "stop", "whole").refused("FAILED_PRECONDITION", "more than one worker")
    assert gcloud("tpu-vm", "delete", "whole").code == 0
    gcloud("tpu-vm", "describe", "whole").refused("NOT_FOUND", "nodes/whole")


def a_node_of_one_worker_stops_starts_and_changes(gcloud):
    assert gcloud("tpu-vm", "create", "single", *ONE).json["state"] == "READY"
    gcloud("tpu-vm", "create", "single", *ONE).refused("ALREADY_EXISTS", "nodes/single")
    assert gcloud("tpu-vm", "stop", "single").json["response"]["state"] == "STOPPED"
    assert gcloud("tpu-vm", "start", "single").json["response"]["state"] == "READY"
    gcloud("tpu-vm", "start", "single").refused("READY")
    changed = gcloud(
        *("tpu-vm", "update", "single", "--description=new", "--add-tags=x"),
        *("--update-labels=a=b", "--update-metadata=c=d", "--internal-ips"),
    )
    assert changed.code == 0, changed.err
    node = gcloud("tpu-vm", "describe", "single").json
    assert (node["description"], node["tags"], node["labels"]) == ("new", ["x"], {"a": "b"})
    assert (node["metadata"], node["state"]) == ({"c": "d"}, "READY")


def what_cannot_be_made(gcloud):
    kind = "--accelerator-type=v5litepod-17"
    refused = gcloud("tpu-vm", "create", "no", kind, "--version=v2-alpha-tpuv5-lite")
    refused.refused("INVALID_ARGUMENT", "v5litepod-17", "[EID: 0x")
    gcloud("tpu-vm", "create", "no", *ONE, "--zone=mars-1a").refused("mars-1a", "[EID: 0x")
    gcloud("tpu-vm", "delete", "no").refused("NOT_FOUND", "nodes/no")
    gcloud("queued-resources", "describe", "no").refused("NOT_FOUND", "queuedResources/no")


def what_a_zone_offers(gcloud):
    types = gcloud("tpu-vm", "accelerator-types", "list").json
    assert "v5litepod-16" in [each["type"] for each in types]
    one = gcloud("tpu-vm", "accelerator-types", "describe", "v5litepod-16").json
    assert one["acceleratorConfigs"] == [{"topology": "4x4", "type": "V5LITE_POD"}]
    versions = gcloud("tpu-vm", "versions", "list").json
    assert "v2-alpha-tpuv5-lite" in [each["version"] for each in versions]
    one = gcloud("tpu-vm", "versions", "describe", "v2-alpha-tpuv5-lite").json
    assert one["name"] == f"{ZONE}/runtimeVersions/v2-alpha-tpuv5-lite"
    topologies = gcloud("topologies", "list").json
    assert {
        "acceleratorType": "v5litepod-16",
        "topology": "4x4",
        "type": "V5LITE_POD",
    } in topologies
    assert gcloud("locations", "describe", "us-west4-a").json["name"] == ZONE
    one = gcloud("accelerator-types", "describe", "v5litepod-16").json
    assert one == {"name": f"{ZONE}/acceleratorTypes/v5litepod-16", "type": "v5litepod-16"}
    versions = gcloud("versions", "list").json
    assert "v2-alpha-tpuv5-lite" in [each["version"] for each in versions]
    assert gcloud("tpu-vm", "create", "listed", *ONE).code == 0
    for lister in (("list",), ("tpu-vm", "list")):  # other stories have nodes of their own
        assert f"{ZONE}/nodes/listed" in [each["name"] for each in gcloud(*lister).json]
    identity = gcloud("tpu-vm", "service-identity", "create").json
    assert identity["identity"]["email"].endswith("@cloud-tpu.iam.gserviceaccount.com")


def what_a_zone_offers_to_alpha(gcloud):
    types = gcloud.alpha("tpu-vm", "accelerator-types", "list").json
    assert "v5litepod-16" in [each["type"] for each in types]
    gcloud.alpha("tpu-vm", "accelerator-types", "describe", "no-such").refused("NOT_FOUND")
    versions = gcloud.alpha("tpu-vm", "versions", "list").json
    assert "v2-alpha-tpuv5-lite" in [each["version"] for each in versions]
    gcloud.alpha("tpu-vm", "versions", "describe", "no-such").refused("NOT_FOUND")
    assert gcloud.alpha("topologies", "list").code == 0
    assert gcloud.alpha("tpu-vm", "service-identity", "create").code == 0
    assert gcloud.alpha("reservations", "list").json == []
    zones = [each["locationId"] for each in gcloud.alpha("locations", "list").json]
    assert "us-west4-a" in zones


def a_queued_resource_from_create_to_delete(gcloud):
    filed = gcloud(
        *("queued-resources", "create", "q", "--node-id=qn", *WANTED, "--spot"),
        *("--valid-until-duration=2h", "--labels=l=x", "--metadata=k=v", "--internal-ips"),
    )
    assert filed.code == 0, filed.err
    listed = gcloud("queued-resources", "list", "--zone=-").json
    (mine,) = [each for each in listed if each["name"].endswith("/queuedResources/q")]
    assert mine["state"]["state"] == "ACTIVE"
    found = gcloud("queued-resources", "describe", "q").json
    assert "spot" in found
    assert "validUntil" in "".join(found["queueingPolicy"])
    assert gcloud("tpu-vm", "describe", "qn").json["queuedResource"] == found["name"]
    reset = gcloud("queued-resources", "reset", "q")
    assert reset.code == 0, reset.err
    gcloud("queued-resources", "delete", "q").refused("FAILED_PRECONDITION", "ACTIVE")
    gone = gcloud("queued-resources", "delete", "q", "--force")
    assert gone.code == 0, gone.err
    gcloud("tpu-vm", "describe", "qn").refused("NOT_FOUND")


def several_slices_of_one_request(gcloud):
    filed = gcloud("queued-resources", "create", "m", "--node-count=2", *WANTED)
    assert filed.code == 0, filed.err
    found = gcloud("queued-resources", "describe", "m").json
    assert [spec["nodeId"] for spec in found["tpu"]["nodeSpec"]] == ["m-0", "m-1"]
    assert gcloud("tpu-vm", "describe", "m-1").json["multisliceNode"] is True


def a_node_of_alpha(gcloud):
    made = gcloud.alpha(
        *("tpu-vm", "create", "alpha", *ONE, "--autocheckpoint-enabled"),
        "--boot-disk=kms-key=projects/demo/locations/us-west4/keyRings/r/cryptoKeys/k",
    ).json
    assert (made["apiVersion"], made["autocheckpointEnabled"]) == ("V2_ALPHA1", True)
    assert gcloud.alpha("tpu-vm", "attach-disk", "alpha", "--disk=d").code == 0
    node = gcloud.alpha("tpu-vm", "describe", "alpha").json
    disk = "projects/demo/zones/us-west4-a/disks/d"
    assert [(each["sourceDisk"], each["mode"]) for each in node["dataDisks"]] == [
        (disk, "READ_WRITE")
    ]
    assert gcloud.alpha("tpu-vm", "detach-disk", "alpha", "--disk=d").code == 0
    assert gcloud.alpha("tpu-vm", "update", "alpha", "--description=new").code == 0
    told = gcloud.alpha("tpu-vm", "get-guest-attributes", "alpha").json
    assert "hostname" in [each["key"] for each in told]
    listed = gcloud.alpha("tpu-vm", "list").json
    (node,) = [each for each in listed if each["name"].endswith("/nodes/alpha")]
    assert (node["description"], node.get("dataDisks")) == ("new", None)
    assert gcloud.alpha("tpu-vm", "delete", "alpha").code == 0


def a_node_of_alpha_is_stopped_and_maintained(gcloud):
    assert gcloud.alpha("tpu-vm", "create", "tired", *ONE).code == 0
    gcloud.alpha("tpu-vm", "perform-maintenance", "tired").refused("FAILED_PRECONDITION")
    assert gcloud.alpha("tpu-vm", "simulate-maintenance-event", "tired", "--async").code == 0
    gcloud.service.advance(24 * 3600)
    assert gcloud.alpha("tpu-vm", "stop", "tired").code == 0
    assert gcloud.alpha("tpu-vm", "start", "tired").json["response"]["state"] == "READY"
    assert gcloud.alpha("tpu-vm", "create", "due", *ONE).code == 0
    assert gcloud.alpha("tpu-vm", "describe", "due").json["upcomingMaintenance"]["canReschedule"]
    maintained = gcloud.alpha("tpu-vm", "perform-maintenance", "due")
    assert maintained.code == 0, maintained.err


def a_queued_resource_of_alpha(gcloud):
    filed = gcloud.alpha(
        *("queued-resources", "create", "aq", "--node-id=aqn", *WANTED),
        *("--provisioning-model=flex-start", "--max-run-duration=4h"),
    )
    assert filed.code == 0, filed.err
    listed = gcloud.alpha("queued-resources", "list").json
    assert f"{ZONE}/queuedResources/aq" in [each["name"] for each in listed]
    found = gcloud.alpha("queued-resources", "describe", "aq").json
    assert found["provisioningModel"] == "FLEX_START"
    assert found["runDuration"]["maxRunDuration"] == "14400s"
    reset = gcloud.alpha("queued-resources", "reset", "aq")
    assert reset.code == 0, reset.err
    maintained = gcloud.alpha("queued-resources", "perform-maintenance", "aq", "--node-names=aqn")
    maintained.refused("FAILED_PRECONDITION")
    assert gcloud.alpha("queued-resources", "delete", "aq", "--force").code == 0


def slices_of_alpha_at_best_effort(gcloud):
    filed = gcloud.alpha(
        *("queued-resources", "create", "am", "--node-count=2", "--node-prefix=s", *WANTED),
        *("--workload-type=AVAILABILITY_OPTIMIZED", "--best-effort"),
    )
    assert filed.code == 0, filed.err
    found = gcloud.alpha("queued-resources", "describe", "am").json
    assert [spec["nodeId"] for spec in found["tpu"]["nodeSpec"]] == ["s-0", "s-1"]
    assert "bestEffort" in found


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        a_node_from_create_to_delete,
        a_queued_resource_from_create_to_delete,
        a_node_of_alpha,
        a_node_of_one_worker_stops_starts_and_changes,
        a_queued_resource_of_alpha,
        a_node_of_alpha_is_stopped_and_maintained,
        what_a_zone_offers,
        what_a_zone_offers_to_alpha,
        several_slices_of_one_request,
        slices_of_alpha_at_best_effort,
        what_cannot_be_made,
    )
}
