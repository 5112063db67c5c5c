"""`tpuctl qr create`: tiers, windows, several slices; the price first."""

import json
from urllib.request import urlopen

import pytest

CREATE = ("qr", "create", "q1", "-t", "v5litepod-16")
FLEX_START = ("--flex-start", "--max-run-duration", "90m")
NEXT_DECADE = "2030-01-01T00:00:00Z"


def describe(tpuctl):
    return tpuctl("qr", "describe", "q1", "-o", "json").json


@pytest.mark.parametrize(
    ("options", "provisioning", "price"),
    [
        ((), "on-demand", "19.20 USD/h (list price of 2026-08-09)"),
        (("--spot",), "spot", "9.71 USD/h (list price of 2026-08-11)"),
        (("--best-effort",), "best-effort", "no public price known"),
        (("--reserved",), "reserved", "no public price known"),
        (FLEX_START, "flex-start", "9.60 USD/h (list price of 2026-08)"),
    ],
)
def test_every_way_to_get_capacity(tpuctl, options, provisioning, price):
    result = tpuctl(*CREATE, *options)
    assert result.code == 0
    assert result.err.splitlines()[0] == f"v5litepod-16 {provisioning} in us-west4-a: {price}"
    assert result.rows[0][5] == provisioning
    assert describe(tpuctl)["provisioning"] == provisioning


def test_flex_start_says_how_long_its_nodes_live(tpuctl):
    tpuctl(*CREATE, *FLEX_START)
    assert describe(tpuctl)["max_run_duration_s"] == 5400.0
    assert tpuctl("qr", "wait", "q1", "-o", "json").json[0]["state"] == "ACTIVE"


@pytest.mark.parametrize(
    ("options", "provisioning", "usd"), [(FLEX_START, "flex-start", 9.6), ((), "on-demand", 19.2)]
)
def test_flex_start_is_told_from_on_demand_wherever_a_price_is(tpuctl, options, provisioning, usd):
    tpuctl(*CREATE, *options)
    shown = tpuctl("qr", "wait", "q1", "-o", "json").json
    shown += tpuctl("qr", "list", "-o", "json").json + tpuctl("node", "list", "-o", "json").json
    shown += tpuctl("node", "wait", "q1", "-o", "json").json
    shown.append(tpuctl("node", "describe", "q1", "-o", "json").json)
    assert [(row["provisioning"], row["usd_per_hour"]) for row in shown] == [
        (provisioning, usd)
    ] * 5
    price = f"({usd:.2f} USD/h)"
    assert price in tpuctl("node", "delete", "q1").err
    assert price in tpuctl("qr", "delete", "q1", "--force").err


def test_where_nothing_tells_the_tier_there_is_no_price(tpuctl):
    tpuctl(*CREATE)
    tpuctl("local", "fault", "GetQueuedResource: PERMISSION_DENIED after call 1")
    found = describe(tpuctl)  # over gRPC, and then in vain over REST
    assert (found["provisioning"], found["usd_per_hour"]) == ("unknown", None)
    tpuctl("local", "fault", "--clear", "ListQueuedResources: PERMISSION_DENIED after call 1")
    (row,) = tpuctl("qr", "list", "-o", "json").json
    assert (row["provisioning"], row["usd_per_hour"]) == ("unknown", None)


def test_best_effort_is_listed_and_waited_for_as_such(tpuctl):
    tpuctl(*CREATE, "--best-effort")
    assert tpuctl("qr", "list").rows[0][5] == "best-effort"
    assert tpuctl("qr", "wait", "q1").rows[0][5:8:2] == ["best-effort", "-"]


def test_autocheckpoint_reaches_the_node(tpuctl):
    tpuctl(*CREATE, "--autocheckpoint", "--spot")
    tpuctl("qr", "wait", "q1")
    assert tpuctl("node", "describe", "q1", "-o", "json").json["autocheckpoint"] is True


KEY = "projects/p/locations/us-west4/keyRings/r/cryptoKeys/k"


def test_how_the_boot_disk_is_encrypted_and_booted_from(tpuctl, cloud):
    disk = ("--boot-disk", f"kms-key={KEY},confidential-compute=True")
    assert tpuctl(*CREATE, *disk, "--shielded-secure-boot").code == 0
    url = "{tpu_rest}/v2alpha1/projects/{project}/locations/{zone}/queuedResources/q1"
    with urlopen(url.format(**cloud.line)) as reply:
        node = json.load(reply)["tpu"]["nodeSpec"][0]["node"]
    assert node["bootDiskConfig"] == {
        "customerEncryptionKey": {"kmsKeyName": KEY}, "enableConfidentialCompute": True
    }  # fmt: skip
    assert node["shieldedInstanceConfig"] == {"enableSecureBoot": True}


def test_a_node_whose_disk_is_encrypted_otherwise_is_not_taken_for_the_one_asked_for(tpuctl):
    create = ("node", "create", "n1", "-t", "v5litepod-4")
    assert tpuctl(*create, "--shielded-secure-boot").code == 0
    result = tpuctl(*create, "--boot-disk", f"kms-key={KEY}")
    assert (result.code, result.err.splitlines()[-2]) == (
        11,
        "error: node 'n1' exists already with another specification: "
        f"boot_disk is none, not {KEY}; shielded_secure_boot is true, not false",
    )
    node = tpuctl("node", "describe", "n1", "-o", "json").json
    assert (node["boot_disk"], node["shielded_secure_boot"]) == (None, True)


@pytest.mark.parametrize(
    ("disk", "message"),
    [
        ("size=10", "--boot-disk: 'size' is not a part"),
        ("confidential-compute=maybe", "--boot-disk: 'maybe' is not a part"),
        ("confidential-compute=true", "--boot-disk: confidential compute needs a key of Cloud KMS"),
    ],
)
def test_what_gcloud_refuses_of_a_boot_disk(tpuctl, disk, message):
    result = tpuctl(*CREATE, "--boot-disk", disk)
    assert (result.code, result.err.splitlines()[0]) == (2, f"error: {message}")


def test_a_multislice_costs_and_is_named_as_many_nodes(tpuctl):
    result = tpuctl(*CREATE, "--spot", "--node-count", "2", "--node-prefix", "s")
    assert result.err.startswith("2 x v5litepod-16 spot in us-west4-a: 19.42 USD/h")
    assert result.rows[0][4] == "s-0,s-1"
    assert tpuctl("qr", "wait", "q1", "-o", "json").json[0]["usd_per_hour"] == 19.424
    assert tpuctl("node", "list", "-o", "name").out == "s-0\ns-1\n"
    assert tpuctl("node", "describe", "s-1", "-o", "json").json["multislice"] is True


@pytest.mark.parametrize("argv", [(*CREATE, "--node-count", "2"), ("qr", "wait", "q1")])
def test_ctrl_c_says_what_goes_on_and_what_ends_it(tpuctl, at_home, argv):
    def ctrl_c(_):
        raise KeyboardInterrupt

    if argv[1] == "wait":
        tpuctl(*CREATE, "--node-count", "2")
    result = at_home(tpuctl.home, sleep=ctrl_c)(*argv)
    assert result.code == 130
    assert result.err.endswith(
        "\ninterrupted\nqueued resource 'q1' goes on at 38.40 USD/h when ACTIVE; "
        "wait for it: tpuctl qr wait q1 --zone us-west4-a; "
        "end it with: tpuctl qr delete q1 --force --zone us-west4-a\n"
    )


def test_ctrl_c_in_a_reset_says_what_goes_on(tpuctl, at_home):
    def ctrl_c(_):
        raise KeyboardInterrupt

    tpuctl(*CREATE)
    tpuctl("qr", "wait", "q1")
    result = at_home(tpuctl.home, sleep=ctrl_c)("qr", "reset", "q1", "--yes")
    assert result.code == 130
    assert "queued resource 'q1' goes on at 19.20 USD/h when ACTIVE; wait for it: " in result.err


def test_who_waits_is_told_what_for(tpuctl, at_home):
    tpuctl("local", "fault", "capacity * *: 0")
    tpuctl(*CREATE)
    waiting = tpuctl("qr", "wait", "q1", "--timeout", "1s").err
    assert "\nno capacity yet: it waits in line, at no cost; v5litepod-16 is also in us-" in waiting
    tpuctl("qr", "create", "q2", "-t", "v5litepod-4", "--valid-after-time", NEXT_DECADE)
    later = tpuctl("qr", "wait", "q2", "--timeout", "1s").err
    assert f"it may not be granted before {NEXT_DECADE}\n" in later


def test_a_node_id_that_is_taken_is_said_to_be(tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    result = tpuctl(*CREATE, "--node-id", "n1")
    assert result.code == 11
    assert result.err.endswith("hint: choose another --node-id; run: tpuctl node list\n")


def test_what_could_not_be_granted_in_time_is_no_capacity(tpuctl, cloud):
    tpuctl("local", "fault", "capacity * *: 0")
    tpuctl(*CREATE, "--valid-until-duration", "10m")
    cloud.control.advance(601)
    result = tpuctl("qr", "wait", "q1")
    assert result.code == 30
    assert "hint: run: tpuctl qr delete q1 --zone us-west4-a; then " in result.err


def test_deleting_a_node_of_a_multislice_names_all_that_goes(tpuctl):
    tpuctl(*CREATE, "--node-count", "2")
    tpuctl("qr", "wait", "q1")
    asked = tpuctl("node", "delete", "q1-0")
    assert asked.err.startswith(
        "error: not confirmed, as stdin is not a terminal: Delete node 'q1-0' and node 'q1-1' "
        "and queued resource 'q1' in context 'local' (38.40 USD/h)"
    )
    assert tpuctl("node", "delete", "q1-0", "--yes").code == 0
    assert tpuctl("node", "list").out == ""


def test_deleting_a_multislice_names_and_takes_all_its_nodes(tpuctl):
    tpuctl(*CREATE, "--spot", "--node-count", "2")
    tpuctl("qr", "wait", "q1")
    refused = tpuctl("qr", "delete", "q1", "--yes")
    assert refused.code == 12
    assert "is ACTIVE: its 2 nodes would be deleted too" in refused.err
    result = tpuctl("qr", "delete", "q1", "--force", "--yes", "-q")
    assert result.code == 0
    assert tpuctl("node", "list").out == tpuctl("qr", "list").out == ""


@pytest.mark.parametrize(
    ("options", "after", "until"),
    [
        (("--valid-after-time", NEXT_DECADE), NEXT_DECADE, None),
        (("--valid-until-time", "2030-01-01T01:00:00+01:00"), None, NEXT_DECADE),
        (
            ("--valid-after-time", NEXT_DECADE, "--valid-until-time", "2031-01-01T00:00:00Z"),
            NEXT_DECADE,
            "2031-01-01T00:00:00Z",
        ),
    ],
)
def test_the_window_in_which_it_may_be_granted(tpuctl, options, after, until):
    assert tpuctl(*CREATE, *options).code == 0
    found = describe(tpuctl)
    assert (found["valid_after"], found["valid_until"]) == (after, until)


def test_a_request_waits_for_its_time(tpuctl, cloud):
    tpuctl(*CREATE, "--valid-after-duration", "1h")
    cloud.control.advance(1800)
    assert describe(tpuctl)["state"] == "ACCEPTED"
    cloud.control.advance(1860)
    assert tpuctl("qr", "wait", "q1", "-o", "json").json[0]["state"] == "ACTIVE"


def test_a_request_that_was_not_granted_in_time_fails_and_says_what_to_do(tpuctl, cloud):
    tpuctl("local", "fault", "capacity us-west4-a v5litepod-16: 0")
    tpuctl(*CREATE, "--valid-until-duration", "1h")
    cloud.control.advance(3700)
    result = tpuctl("qr", "wait", "q1")
    assert result.code != 0
    assert "queued resource 'q1' FAILED" in result.err
    assert "run: tpuctl qr delete q1 --zone us-west4-a" in result.err.splitlines()[-1]


def test_reset_makes_the_nodes_of_a_suspended_request_anew(tpuctl):
    tpuctl(*CREATE, "--spot")
    tpuctl("qr", "wait", "q1")
    tpuctl("local", "preempt", "q1", "--no-notice")
    assert tpuctl("qr", "wait", "q1").code == 31
    refused = tpuctl("qr", "reset", "q1")
    assert refused.code == 80
    what = "Create queued resource 'q1' and node 'q1' in context 'local' again (9.71 USD/h)"
    assert what in refused.err
    assert tpuctl("qr", "reset", "q1", "--yes").code == 0
    assert tpuctl("qr", "wait", "q1", "-o", "json").json[0]["state"] == "ACTIVE"
    assert tpuctl("node", "list").rows[0][3] == "READY"


def test_a_request_that_is_provisioning_cannot_be_deleted_yet(tpuctl, cloud):
    tpuctl(*CREATE, "--spot")
    while describe(tpuctl)["state"] == "ACCEPTED":
        cloud.control.advance(0.1)
    result = tpuctl("qr", "delete", "q1", "--force", "--yes")
    assert result.code == 12
    assert "its state does not allow it: " in result.err
    assert result.err.splitlines()[-1] == (
        "hint: run: tpuctl qr wait q1 --zone us-west4-a; or give it up: "
        "tpuctl node delete NODE --node-only --zone us-west4-a"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--spot", "--best-effort"), "--spot and --best-effort exclude each other"),
        (("--reservation", "r", "--spot"), "--spot and --reservation exclude each other"),
        (("--flex-start",), "--flex-start needs --max-run-duration"),
        (("--max-run-duration", "1h"), "--max-run-duration needs --flex-start"),
        (("--flex-start", "--spot", "--max-run-duration", "1h"), "--spot and --flex-start"),
        (("--flex-start", "--max-run-duration", "8d"), "at most 7 days"),
        (("--node-count", "1"), "--node-count must be greater than 1"),
        (("--node-prefix", "s"), "--node-prefix needs --node-count"),
        (("--node-id", "n", "--node-count", "2"), "--node-id and --node-count exclude"),
        (("--node-count", "x"), "'x' is not a valid"),
        (("--valid-after-time", "tomorrow"), "'tomorrow' is not a time with its zone"),
        (("--valid-until-time", "2020-01-01T00:00:00Z"), "would end before it begins"),
        (("--valid-after-time", "2030-01-01T00:00:00"), "is not a time with its zone"),
        (("--valid-after-time", "9999-12-31T23:59:59-14:00"), "is not a time with its zone"),
        (("--valid-until-duration", "1000000000d"), "is too long"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_call(tpuctl, options, message):
    result = tpuctl(*CREATE, *options)
    assert (result.code, result.out) == (2, "")
    error, hint = result.err.splitlines()
    assert message in error
    assert hint.startswith("hint: ")
    assert tpuctl("qr", "list").out == ""


def test_old_generations_have_no_multislice(tpuctl):
    argv = ("qr", "create", "q1", "-t", "v2-8", "--zone", "us-central1-b", "--node-count", "2")
    result = tpuctl(*argv)
    assert result.code == 2
    assert "v2-8 cannot be part of a multislice" in result.err


def test_external_addresses_that_others_hold_are_a_warning_and_too_small_a_quota_an_error(tpuctl):
    tpuctl("local", "fault", "quota IN_USE_ADDRESSES: 4")
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
    result = tpuctl(*CREATE, "--spot")
    assert result.code == 0  # it may wait in line until they are free
    assert result.err.splitlines()[1].startswith(
        "warning: create queued resource 'q1': 4 external addresses are needed, and us-west4 has 3 "
        "of 4 left; leave them out: --internal-ips"
    )
    waited = tpuctl("qr", "wait", "q1", "-o", "json")
    assert waited.code == 30
    assert json.loads(waited.err.splitlines()[-1])["reason"] == "external_addresses_used"
    result = tpuctl("qr", "create", "q2", "-t", "v5litepod-16", "--spot", "--node-count", "2")
    assert result.code == 30
    assert "8 external addresses are needed, and us-west4 has 3 of 4 left" in result.err
    assert tpuctl("qr", "list", "-o", "name").out == "q1\n"
