"""`tpuctl node create`: every option reaches the node, and every refusal says what to do."""

import json

import pytest

CREATE = ("node", "create", "n1", "-t", "v5litepod-16", "--spot")
ONE_WORKER = ("node", "create", "n1", "-t", "v5litepod-4")
DISK = "projects/p/zones/us-west4-a/disks/d"


def describe(tpuctl, name="n1"):
    return tpuctl("node", "describe", name, "-o", "json").json


def test_what_was_asked_for_is_what_describe_shows(tpuctl):
    options = (
        *("--tags", "a,b", "--description", "mine", "--autocheckpoint"),
        *("--network", "net", "--subnetwork", "sub"),
        *("--service-account", "who@demo.iam.gserviceaccount.com", "--scopes", "cloud-platform"),
        *("--data-disk", f"source={DISK},mode=read-only", "--data-disk", f"source={DISK}2"),
    )
    assert tpuctl(*ONE_WORKER, *options).code == 0
    found = describe(tpuctl)
    assert found["tags"] == ["a", "b"]
    assert found["description"] == "mine"
    assert found["autocheckpoint"] is True
    assert found["network"] == "projects/local-project/global/networks/net"
    assert found["subnetwork"] == "projects/local-project/regions/us-west4/subnetworks/sub"
    assert found["service_account"] == "who@demo.iam.gserviceaccount.com"
    assert found["scopes"] == ["https://www.googleapis.com/auth/cloud-platform"]
    assert found["data_disks"] == [
        {"source": DISK, "mode": "READ_ONLY"},
        {"source": f"{DISK}2", "mode": "READ_WRITE"},
    ]


def test_external_addresses_unless_they_are_not_wanted(tpuctl):
    tpuctl(*ONE_WORKER)
    tpuctl("node", "create", "n2", "-t", "v5litepod-4", "--internal-ips")
    assert len(describe(tpuctl)["external_addresses"]) == 1
    assert describe(tpuctl, "n2")["external_addresses"] == []


def test_metadata_comes_from_files_too(tpuctl, tmp_path):
    (tmp_path / "value").write_text("from a file\n")
    tpuctl(*ONE_WORKER, "--metadata", "a=b", "--metadata-from-file", f"c={tmp_path}/value")
    python = (
        "import os, urllib.request as u; print(u.urlopen(u.Request('http://'"
        " + os.environ.get('GCE_METADATA_HOST', 'metadata.google.internal')"
        " + '/computeMetadata/v1/instance/attributes/c',"
        " headers={'Metadata-Flavor': 'Google'})).read().decode())"
    )
    assert tpuctl("node", "exec", "n1", "--", "python3", "-c", python).out == "from a file\n\n"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--spot", "--reserved"), 2, "--spot and --reserved exclude each other"),
        (("--data-disk", "mode=read-only"), 2, "--data-disk: 'mode=read-only' is not a disk"),
        (("--data-disk", "source=d"), 2, "--data-disk: 'd' is not a disk in us-west4-a"),
        (("--metadata-from-file", "a=/nowhere"), 10, "there is no file /nowhere"),
        (("--startup-script", "/nowhere"), 10, "there is no file /nowhere"),
        (("--metadata", "a=b", "--metadata-from-file", "a=/x"), 2, "both give 'a'"),
        (("--best-effort",), 2, "No such option: --best-effort"),
        (("--node-count", "2"), 2, "No such option: --node-count"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_call(tpuctl, options, code, message):
    result = tpuctl(*ONE_WORKER, *options)
    assert (result.code, result.out) == (code, "")
    error, hint = result.err.splitlines()
    assert message in error
    assert hint.startswith("hint: ")
    assert tpuctl("node", "list").out == ""


def test_a_stock_out_names_other_zones_and_the_queue(tpuctl):
    tpuctl("local", "fault", "capacity us-west4-a v5litepod-16: 0")
    result = tpuctl(*CREATE)
    assert result.code == 30
    error, hint = result.err.splitlines()[-2:]
    assert error.startswith("error: create node 'n1': no capacity: ")
    assert "EID" not in error
    assert hint.startswith("hint: v5litepod-16 is also in us-")
    assert hint.endswith(
        "wait in line: tpuctl qr create n1 -t v5litepod-16 --spot --zone us-west4-a"
    )


def test_a_full_quota_names_who_holds_it_and_what_to_delete(tpuctl):
    tpuctl(*CREATE)
    tpuctl("local", "preempt", "n1", "--no-notice")
    tpuctl("local", "fault", "quota TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI: 16")
    result = tpuctl("node", "create", "n2", "-t", "v5litepod-16", "--spot")
    assert result.code == 30
    error, hint = result.err.splitlines()[-2:]
    assert "the quota is used up: " in error
    assert error.endswith("(16 of 16 chips in use: node 'n1' (16, PREEMPTED))")
    assert hint == "hint: free some: tpuctl node delete n1 --zone us-west4-a"


NO_ADDRESSES_HINT = (
    "hint: leave them out: --internal-ips, or internal_ips: true in a job file; the subnet needs "
    "Private Google Access: gcloud compute networks subnets update default --region=us-west4 "
    "--enable-private-ip-google-access --project=local-project"
)


def test_a_node_that_needs_more_external_addresses_than_are_left_is_not_asked_for(tpuctl):
    tpuctl("local", "fault", "quota IN_USE_ADDRESSES: 4")
    assert tpuctl(*ONE_WORKER).code == 0
    result = tpuctl("node", "create", "n2", *CREATE[3:])
    assert result.code == 30
    assert result.err.splitlines()[-2:] == [
        "error: create node 'n2': 4 external addresses are needed, and us-west4 has 3 of 4 left",
        NO_ADDRESSES_HINT,
    ]
    assert tpuctl("node", "list", "-o", "name").out == "n1\n"
    assert tpuctl("node", "create", "n2", *CREATE[3:], "--internal-ips").code == 0
    result = tpuctl("node", "create", "n3", "-t", "v5litepod-32", "-o", "json")
    error = json.loads(result.err.splitlines()[-1])
    assert (result.code, error["reason"]) == (30, "external_address_limit")


@pytest.mark.parametrize(
    ("scenario", "code", "cause", "hint"),
    [
        (
            {"external_ips": "disabled"},
            21,
            "a policy of the organization forbids external addresses: Constraint "
            "constraints/compute.vmExternalIpAccess violated for project 424242424242.",
            NO_ADDRESSES_HINT,
        ),
        (
            {"subnets": {"us-west4-a": 3}},
            30,
            "the subnet has no addresses left: IP_SPACE_EXHAUSTED: IP space of "
            "'projects/local-project/regions/us-west4/subnetworks/default' is exhausted.",
            "hint: use another one: --subnetwork tpu-us-west4, or subnetwork: tpu-us-west4 in a job"
            " file; make it: gcloud compute networks subnets create tpu-us-west4 --network=default "
            "--region=us-west4 --range=10.200.0.0/20 --enable-private-ip-google-access "
            "--project=local-project",
        ),
        (
            {"networks": ["mine"]},
            10,
            "there is no such network: The resource "
            "'projects/local-project/global/networks/default' was not found",
            "hint: name one: --network NAME, or network: NAME in a job file; or make it: gcloud "
            "compute networks create default --subnet-mode=auto --project=local-project",
        ),
    ],
)
def test_what_the_network_refuses_is_no_stock_out(tpuctl, cloud, scenario, code, cause, hint):
    cloud.control._send("PATCH", "/scenario", json.dumps(scenario).encode())
    result = tpuctl(*CREATE)
    assert (result.code, *result.err.splitlines()[-2:]) == (
        code,
        f"error: create node 'n1': {cause}",
        hint,
    )


def test_a_reservation_without_room_is_explained(tpuctl):
    result = tpuctl(*ONE_WORKER, "--reserved")
    assert result.code == 30
    assert "the reservation is too small" in result.err
    assert "hint: ask for a smaller type, or leave out --reserved" in result.err


@pytest.mark.parametrize("noun", ["node", "qr"])
def test_a_reservation_that_is_not_there_is_explained(tpuctl, noun):
    result = tpuctl(noun, *ONE_WORKER[1:], "--reservation", "r1")
    assert result.code == 10
    assert "there is no such reservation: " in result.err
    assert "us-west4-a/reservations/r1" in result.err
    assert "gcloud alpha compute tpus reservations list" in result.err


@pytest.mark.parametrize(
    ("fault", "code", "hint"),
    [
        ("CreateNode: PERMISSION_DENIED", 21, "--role=roles/tpu.admin"),
        ("CreateNode: UNAVAILABLE x1", 42, "run the same command again: it goes on with"),
        ("CreateNode: ABORTED", 12, "run it again"),
    ],
)
def test_a_refusal_says_what_to_do(tpuctl, fault, code, hint):
    assert tpuctl("local", "fault", fault).code == 0
    result = tpuctl(*CREATE)
    assert result.code == code
    assert hint in result.err.splitlines()[-1]


def test_what_carries_a_request_id_is_repeated(tpuctl):
    tpuctl("local", "fault", "CreateNode: UNAVAILABLE x1")
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-16", "--autocheckpoint").code == 0
    assert tpuctl("node", "list", "-o", "name").out == "n1\n"


def test_a_zone_that_is_none_is_explained(tpuctl):
    result = tpuctl("node", "list", "--zone", "us-west4-x")
    assert result.code == 2
    error, hint = result.err.splitlines()
    assert error.startswith("error: list nodes: no such zone: ")
    assert hint.startswith("hint: did you mean us-west4-")


def test_debug_shows_the_api_s_own_words(tpuctl):
    tpuctl("local", "fault", "capacity us-west4-a v5litepod-16: 0")
    with pytest.raises(Exception, match="no capacity") as caught:
        tpuctl(*CREATE, "--debug")
    assert any("[EID: 0x" in note for note in caught.value.__notes__)


def test_json_errors_carry_the_hint(tpuctl):
    tpuctl("local", "fault", "CreateNode: PERMISSION_DENIED")
    found = json.loads(tpuctl(*CREATE, "-q", "-o", "json").err)
    assert (found["reason"], found["exit_code"]) == ("permission_denied", 21)
    assert "roles/tpu.admin" in found["hint"]
