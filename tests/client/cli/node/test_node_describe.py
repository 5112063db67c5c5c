"""`tpuctl node describe`: the workers, the health, what is announced, the startup script."""

import grpc
from google.longrunning import operations_pb2

from tpuctl.api.tpu.versions import V2ALPHA1

CREATE = ("node", "create", "n1", "-t", "v5litepod-16", "--spot")
ONE_WORKER = ("node", "create", "n1", "-t", "v5litepod-4")


def describe(tpuctl):
    return tpuctl("node", "describe", "n1", "-o", "json").json


def simulate_maintenance(cloud):
    """What only v2alpha1 can do, and tpuctl has no verb for."""
    line = cloud.line
    name = f"projects/{line['project']}/locations/{line['zone']}/nodes/n1"
    request = V2ALPHA1.message("SimulateMaintenanceEventRequest", {"name": name})
    with grpc.insecure_channel(line["tpu_grpc"]) as channel:
        channel.unary_unary(
            f"/{V2ALPHA1.service}/SimulateMaintenanceEvent",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=operations_pb2.Operation.FromString,
        )(request)


def startup_script_when_ended(tpuctl):
    """The workers run it on their own time; each look at them is a call over the network."""
    for _ in range(1000):
        told = describe(tpuctl)["startup_script"]
        if all(each["state"] == "exited" for each in told):
            return told
    raise AssertionError(f"the startup script does not end: {told}")


def test_describe_s_json_keys_are_public(tpuctl):
    tpuctl("qr", "create", "q1", "-t", "v5litepod-4", "--spot")
    tpuctl("qr", "wait", "q1")
    assert list(tpuctl("node", "describe", "q1", "-o", "json").json)[8:] == [
        "expires",
        "delete_when_idle",
        "runtime_version",
        "health",
        "queued_resource",
        "addresses",
        "labels",
        "description",
        "id",
        "external_addresses",
        "health_description",
        "symptoms",
        "upcoming_maintenance",
        "autocheckpoint",
        "multislice",
        "network",
        "subnetwork",
        "service_account",
        "scopes",
        "tags",
        "data_disks",
        "boot_disk",
        "shielded_secure_boot",
        "startup_script",
    ]
    assert list(tpuctl("qr", "describe", "q1", "-o", "json").json)[8:] == [
        "runtime_version",
        "state_initiator",
        "failure",
        "reservation",
        "valid_after",
        "valid_until",
        "max_run_duration_s",
        "ttl",
        "delete_when_idle",
    ]


def test_describe_shows_how_the_startup_script_ended_on_every_worker(tpuctl, tmp_path):
    script = tmp_path / "setup.sh"
    script.write_text("#!/bin/sh\necho setting up\necho broken >&2\nexit 3\n")
    assert tpuctl(*CREATE, "--startup-script", str(script)).code == 0
    assert startup_script_when_ended(tpuctl) == [
        {"worker": n, "state": "exited", "exit_code": 3, "output": "setting up\nbroken\n"}
        for n in range(4)
    ]
    lines = tpuctl("node", "describe", "n1").out.splitlines()
    assert lines[-3:] == [
        "startup script of worker 3: exited with 3",
        "[3] setting up",
        "[3] broken",
    ]


def test_nothing_that_is_shown_moves_the_terminal(tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4", "--description", "a\x1b[2Jb\n\x07c")
    shown = tpuctl("node", "describe", "n1").out
    assert " a?[2Jb ?c\n" in shown
    refused = tpuctl("node", "create", "n2", "-t", "v5litepod-4", "--network", "\x1b[2J/x/y")
    assert "\x1b" not in refused.err


def test_a_node_without_a_startup_script_has_none_to_show(tpuctl):
    tpuctl(*ONE_WORKER)
    assert describe(tpuctl)["startup_script"] == []


def test_maintenance_is_shown_while_it_goes_on(tpuctl, cloud):
    tpuctl(*ONE_WORKER)
    assert describe(tpuctl)["upcoming_maintenance"] is None
    simulate_maintenance(cloud)
    found = describe(tpuctl)
    assert (found["state"], found["health"]) == ("REPAIRING", "UNHEALTHY_MAINTENANCE")
    assert found["health_description"]
    assert found["upcoming_maintenance"]["kind"] == "UNSCHEDULED"
    assert found["upcoming_maintenance"]["status"] == "ONGOING"
    assert "status=ONGOING" in tpuctl("node", "describe", "n1").out


def test_a_worker_that_cannot_be_asked_is_unknown(tpuctl, tmp_path):
    script = tmp_path / "setup.sh"
    script.write_text("true\n")
    tpuctl(*ONE_WORKER, "--startup-script", str(script))
    tpuctl("local", "fault", "GetGuestAttributes: PERMISSION_DENIED")
    assert describe(tpuctl)["startup_script"] == [
        {"worker": 0, "state": "unknown", "exit_code": None, "output": ""}
    ]


def test_logs_show_what_the_startup_script_printed(tpuctl, tmp_path):
    (tmp_path / "boot.sh").write_text("echo hello; echo from here >&2; exit 3\n")
    tpuctl(*CREATE, "--startup-script", str(tmp_path / "boot.sh"))
    startup_script_when_ended(tpuctl)
    shown = tpuctl("node", "logs", "n1", "--worker", "1-2")
    assert shown.out.splitlines() == ["[1] hello", "[1] from here", "[2] hello", "[2] from here"]
    assert shown.err.splitlines()[0] == "startup script of worker 1: exited with 3"
    rows = tpuctl("node", "logs", "n1", "-o", "json").json
    assert [row["worker"] for row in rows] == [0, 1, 2, 3]
    assert rows[0] == {
        "worker": 0, "state": "exited", "exit_code": 3, "output": rows[0]["output"]
    }  # fmt: skip


def test_logs_say_where_nothing_tells(tpuctl):
    tpuctl(*ONE_WORKER)
    none = tpuctl("node", "logs", "n1")
    assert (none.code, none.err.splitlines()[0]) == (12, "error: node 'n1' has no startup script")
    tpuctl("node", "update", "n1", "--metadata", "startup-script=date")
    other = tpuctl("node", "logs", "n1")
    assert other.code == 12
    assert "journalctl" in other.err
    assert tpuctl("node", "logs", "n1", "--worker", "4").code == 2
