"""`--ttl` and `--delete-when-idle`: labels, what lists show of them, and what `sweep` deletes."""

import pytest
from clouds import Runner

CREATE = ("node", "create", "n1", "-t", "v5litepod-4")
HOUR_S = 3600.0


@pytest.fixture
def later(cloud):
    """`later(hours)` is `tpuctl` that much later than the beginning of the simulated clock."""
    began_s = cloud.control.advance(0.0)
    return lambda hours: Runner(
        cloud.home, sleep=cloud.control.advance, now=lambda: began_s + hours * HOUR_S
    )


def describe(tpuctl, name="n1"):
    return tpuctl("node", "describe", name, "-o", "json").json


def verdicts(tpuctl, *argv):
    found = tpuctl("sweep", *argv, "-o", "json").json["slices"]
    return {each["name"]: (each["verdict"], each["why"]) for each in found}


def test_both_are_labels_and_lists_show_them(tpuctl):
    assert tpuctl(*CREATE, "--ttl", "90m", "--delete-when-idle", "30m").code == 0
    found = describe(tpuctl)
    assert found["labels"]["tpuctl-ttl"] == "1h30m"
    assert found["labels"]["tpuctl-delete-when-idle"] == found["delete_when_idle"] == "30m"
    (row,) = tpuctl("node", "list", "-o", "json").json
    assert row["expires"] == found["expires"] > row["created"]
    head, line = tpuctl("node", "list").out.splitlines()
    assert (head.split("\t")[-1], line.split("\t")[-1]) == ("EXPIRES", row["expires"])


def test_without_them_a_node_does_not_expire(tpuctl):
    tpuctl(*CREATE)
    found = describe(tpuctl)
    assert (found["expires"], found["delete_when_idle"]) == (None, None)
    assert tpuctl("node", "list").rows[0][-1] == "-"


def test_a_ttl_is_extended_from_the_creation_on_and_removed(tpuctl):
    tpuctl(*CREATE, "--ttl", "4h", "--labels", "team=vision")
    before = describe(tpuctl)
    assert tpuctl("node", "update", "n1", "--ttl", "8h").code == 0
    after = describe(tpuctl)
    assert after["labels"] == {**before["labels"], "tpuctl-ttl": "8h"}
    assert after["expires"] > before["expires"]
    assert tpuctl("node", "update", "n1", "--ttl", "", "--delete-when-idle", "2h").code == 0
    last = describe(tpuctl)
    assert (last["expires"], last["delete_when_idle"]) == (None, "2h")
    assert last["labels"]["team"] == "vision"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ttl", "soon"), "error: 'soon' is not a duration"),
        (("--ttl", "0s"), "error: ttl must be at least a second"),
        (("--delete-when-idle", "0.2s"), "error: delete-when-idle must be at least a second"),
    ],
)
def test_what_is_not_a_duration_is_refused(tpuctl, options, message):
    result = tpuctl(*CREATE, *options)
    assert (result.code, result.err.splitlines()[0]) == (2, message)


def test_the_nodes_of_a_request_have_them_too(tpuctl):
    options = ("--ttl", "12h", "--delete-when-idle", "45m")
    assert tpuctl("qr", "create", "q1", "-t", "v5litepod-4", *options).code == 0
    found = tpuctl("qr", "describe", "q1", "-o", "json").json
    assert (found["ttl"], found["delete_when_idle"]) == ("12h", "45m")
    tpuctl("qr", "wait", "q1")
    assert describe(tpuctl, "q1")["labels"]["tpuctl-ttl"] == "12h"


def test_the_same_create_again_goes_on_with_the_node(tpuctl):
    argv = (*CREATE, "--ttl", "4h")
    assert tpuctl(*argv).code == 0
    assert "goes on with it" in tpuctl(*argv).err
    assert tpuctl(*CREATE, "--ttl", "5h").code == 11


def test_the_switch_is_not_a_startup_script_of_a_person(tpuctl, tmp_path):
    tpuctl(*CREATE, "--ttl", "4h")
    result = tpuctl("node", "logs", "n1")
    assert (result.code, result.err.splitlines()[0]) == (
        12, "error: node 'n1' has no startup script"
    )  # fmt: skip
    (tmp_path / "boot.sh").write_text("echo booted\n")
    script = ("--startup-script", str(tmp_path / "boot.sh"))
    assert tpuctl("node", "create", "n2", "-t", "v5litepod-4", "--ttl", "4h", *script).code == 0
    metadata = describe(tpuctl, "n2")["startup_script"]
    assert [each["worker"] for each in metadata] == [0]


def test_sweep_deletes_what_is_overdue_and_no_sooner(later):
    tpuctl = later(3.9)
    tpuctl(*CREATE, "--labels", "tpuctl-ttl=4h")
    assert verdicts(tpuctl) == {"n1": ("by-hand", "no job made it")}
    assert verdicts(later(4.1)) == {"n1": ("overdue", "its ttl of 4h is over")}
    warned = later(4.1)("sweep").err.splitlines()
    assert warned[-1] == (
        "warning: 1 overdue slice costs 4.80 USD/h; delete with: tpuctl sweep --fix"
    )
    assert tpuctl("sweep", "--fix", "--yes").code == 0
    assert tpuctl("node", "list", "-o", "name").out == "n1\n"
    assert later(4.1)("sweep", "--fix", "--yes").err.splitlines()[-1] == "deleted node 'n1'"
    assert tpuctl("node", "list", "-o", "name").out == ""
