"""`tpuctl node`: argv -> exact output, through the real client and a real simulator."""

import pytest

CREATE = ("node", "create", "n1", "-t", "v5litepod-16", "--spot")
DELETE = ("node", "delete", "n1", "--yes")


def test_create_shows_the_price_first_and_the_node_when_it_is_ready(tpuctl):
    result = tpuctl(*CREATE)
    assert result.code == 0
    assert result.err.splitlines()[0] == (
        "v5litepod-16 spot in us-west4-a: 9.71 USD/h (list price of 2026-08-11)"
    )
    (row,) = result.rows
    assert row[:6] == ["n1", "us-west4-a", "v5litepod-16", "READY", "4", "spot"]
    assert row[7] == "9.71"


def test_a_quiet_create_prints_the_result_alone(tpuctl):
    result = tpuctl(*CREATE, "-q", "-o", "name")
    assert (result.code, result.out, result.err) == (0, "n1\n", "")


def test_gcloud_s_type_and_topology_mean_the_same_slice(tpuctl):
    result = tpuctl(
        "node", "create", "n1", "--type", "V5LITE_POD", "--topology", "4x4", "-o", "json"
    )
    assert result.json[0]["accelerator_type"] == "v5litepod-16"


def test_json_keys_are_public(tpuctl):
    tpuctl(*CREATE)
    (row,) = tpuctl("-o", "json", "node", "list").json
    assert list(row) == [
        "name",
        "zone",
        "accelerator_type",
        "state",
        "workers",
        "provisioning",
        "created",
        "usd_per_hour",
        "expires",
        "delete_when_idle",
    ]
    assert row["usd_per_hour"] == 9.712


def test_describe_shows_addresses_and_health(tpuctl):
    tpuctl(*CREATE)
    found = tpuctl("node", "describe", "n1", "-o", "json").json
    assert found["health"] == "HEALTHY"
    assert len(found["addresses"]) == 4
    assert found["runtime_version"] == "v2-alpha-tpuv5-lite"


def test_lists_show_every_zone_unless_one_is_named(tpuctl):
    tpuctl(*CREATE)
    tpuctl("node", "create", "n2", "-t", "v5litepod-4", "--zone", "us-central1-a")
    assert tpuctl("node", "list", "-o", "name").out == "n2\nn1\n"
    assert tpuctl("node", "list", "--zone", "us-central1-a", "-o", "name").out == "n2\n"


def test_no_wait_returns_at_once_and_wait_waits(tpuctl):
    result = tpuctl(*CREATE, "--no-wait")
    assert result.err.endswith("node 'n1' is being created: tpuctl node wait n1\n")
    assert tpuctl("node", "wait", "n1", "-o", "json").json[0]["state"] == "READY"


def test_a_deadline_leaves_the_work_going(tpuctl, at_home):
    tpuctl(*CREATE, "--no-wait")
    clock_stands_still = at_home(tpuctl.home, sleep=lambda _: None)
    result = clock_stands_still("node", "wait", "n1", "--timeout", "0.5s")
    assert result.code == 41
    assert result.err.splitlines()[-2:] == [
        "error: node 'n1' is still CREATING after 0 s; the work goes on",
        "hint: node 'n1' goes on at 9.71 USD/h when READY; "
        "wait for it: tpuctl node wait n1 --zone us-west4-a; "
        "end it with: tpuctl node delete n1 --zone us-west4-a",
    ]
    assert tpuctl("node", "wait", "n1").code == 0


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (
            ("node", "wait", "n1"),
            "node 'n1' goes on at 9.71 USD/h when READY; "
            "wait for it: tpuctl node wait n1 --zone us-west4-a; "
            "end it with: tpuctl node delete n1 --zone us-west4-a",
        ),
        (("node", "update", "n1", "--labels", "a=b"), "the change of node 'n1' goes on"),
    ],
)
def test_ctrl_c_says_what_goes_on(tpuctl, at_home, argv, told):
    def ctrl_c(_):
        raise KeyboardInterrupt

    tpuctl(*CREATE, *(["--no-wait"] if "wait" in argv else []))
    result = at_home(tpuctl.home, sleep=ctrl_c)(*argv)
    assert (result.code, result.err.splitlines()[-2:]) == (130, ["interrupted", told])


def test_delete_asks_and_refuses_where_nobody_answers(tpuctl):
    tpuctl(*CREATE)
    result = tpuctl("node", "delete", "n1")
    assert result.code == 80
    assert result.err == (
        "error: not confirmed, as stdin is not a terminal: "
        "Delete node 'n1' in context 'local' (9.71 USD/h)\n"
        "hint: add --yes\n"
    )
    assert tpuctl(*DELETE).code == 0
    assert tpuctl("node", "list").out == ""


def test_delete_takes_the_owning_request_with_it(tpuctl):
    tpuctl("qr", "create", "q1", "-t", "v5litepod-16", "--node-id", "n1")
    tpuctl("qr", "wait", "q1")
    result = tpuctl(*DELETE)
    assert result.err == "deleted node 'n1' and queued resource 'q1' in context 'local'\n"
    assert tpuctl("qr", "list").out == ""


def test_node_only_keeps_the_request(tpuctl):
    tpuctl("qr", "create", "q1", "-t", "v5litepod-16", "--node-id", "n1")
    tpuctl("qr", "wait", "q1")
    assert tpuctl(*DELETE, "--node-only").code == 0
    assert tpuctl("qr", "list", "-o", "name").out == "q1\n"


def test_stop_and_start_a_slice_of_one_worker(tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    assert tpuctl("node", "stop", "n1", "-o", "json").json[0]["state"] == "STOPPED"
    assert tpuctl("node", "exec", "n1", "--", "true").code == 12
    assert tpuctl("node", "start", "n1", "-o", "json").json[0]["state"] == "READY"


def test_update_changes_labels_and_removes_one(tpuctl):
    tpuctl(*CREATE, "--labels", "team=a,stage=x")
    assert tpuctl("node", "update", "n1", "--labels", "team=b,stage=").code == 0
    labels = tpuctl("node", "describe", "n1", "-o", "json").json["labels"]
    assert labels == {"team": "b", "tpuctl-request": labels["tpuctl-request"]}


def test_a_preempted_node_says_so_and_stays_until_it_is_deleted(tpuctl):
    tpuctl(*CREATE)
    assert tpuctl("local", "preempt", "n1", "--no-notice").code == 0
    assert tpuctl("node", "list").rows[0][3] == "PREEMPTED"
    result = tpuctl("node", "exec", "n1", "--", "true")
    assert result.code == 31
    hint = "hint: run: tpuctl node delete n1 --zone us-west4-a; then create it again\n"
    assert result.err.endswith(hint)
    again = tpuctl(*CREATE)
    assert (again.code, again.err.endswith(hint), "USD/h" in again.err) == (31, True, False)


BAD = [
    (("create", "n1", "-t", "v5litepod-17"), 2, "unknown accelerator type 'v5litepod-17'"),
    (("create", "n1", "-t", "v5litepod-16", "--zone", "mars-1a"), 2, "unknown zone 'mars-1a'"),
    (("create", "n1", "-t", "v4-8"), 2, "v4-8 is not offered in us-west4-a"),
    (
        ("create", "n1", "-t", "v5litepod-16", "--runtime-version", "v2-alpha-tpuv5lite"),
        2,
        "unknown runtime version 'v2-alpha-tpuv5lite'",
    ),
    (("create", "N_1", "-t", "v5litepod-16"), 2, "'N_1' is not a valid name"),
    (("create", "n1"), 2, "no slice is named"),
    (("create", "n1", "-t", "v5litepod-16", "--labels", "A=b"), 2, "label A=b is not allowed"),
    (("create", "n1", "-t", "v5litepod-16", "--labels", "x"), 2, "--labels: 'x' is not KEY=VALUE"),
    (("create", "n1", "-t", "v5litepod-16", "--timeout", "soon"), 2, "'soon' is not a duration"),
    (("create", "n1", "-t", "v5litepod-16", "--timeout", "99999999d"), 2, "is too long"),
    (("describe", "é"), 2, "'é' is not a valid name"),
    (("stop", "\x1b[31m"), 2, "is not a valid name"),
    (("delete", "x" * 20_000, "--yes"), 2, "is not a valid name"),
    (("describe", "nope"), 10, "there is no node 'nope' in us-west4-a"),
    (("delete", "nope", "--yes"), 10, "there is no node 'nope' in us-west4-a"),
    (("exec", "nope", "--", "true"), 10, "there is no node 'nope' in us-west4-a"),
    (("lisst",), 2, "No such command 'lisst'. Did you mean 'list'?"),
    (("list", "-o", "xml"), 2, "'xml' is not one of table, wide, json, yaml, name"),
]


@pytest.mark.parametrize(("argv", "code", "message"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input_is_one_line_with_a_way_out(tpuctl, argv, code, message):
    result = tpuctl("node", *argv, "-q")
    assert (result.code, result.out) == (code, "")
    error, hint = result.err.splitlines()
    assert message in error
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert tpuctl("node", "list").out == ""


def test_bytes_that_are_not_utf_8_are_refused(tpuctl):
    result = tpuctl("node", "create", "n1", "-t", "v5litepod-16", "--description", "\udcff", "-q")
    assert (result.code, result.err) == (2, "error: '\\udcff' is not UTF-8\n")


def test_the_same_create_again_goes_on_with_the_node(tpuctl, at_home):
    def ctrl_c(_):
        raise KeyboardInterrupt

    assert at_home(tpuctl.home, sleep=ctrl_c)(*CREATE).code == 130
    result = tpuctl(*CREATE)
    assert (result.code, result.rows[0][:4:3]) == (0, ["n1", "READY"])
    there = "node 'n1' exists already, with the same settings; tpuctl goes on with it"
    assert result.err.splitlines()[1:] == [there, "creating node n1"]
    assert tpuctl("node", "list", "-o", "name").out == "n1\n"


def test_another_specification_of_the_same_name_is_a_conflict_with_every_difference(tpuctl):
    tpuctl(*CREATE, "--labels", "team=a")
    before = tpuctl("node", "list").out
    other = ("-t", "v5litepod-4", "--internal-ips", "--description", "mine", "--tags", "x")
    result = tpuctl("node", "create", "n1", *other, "--metadata", "a=b")
    assert result.code == 11
    assert result.err.splitlines()[-2:] == [
        "error: node 'n1' exists already with another specification: "
        "accelerator_type is v5litepod-16, not v5litepod-4; provisioning is spot, not on-demand; "
        "labels are team=a, not none; internal_ips is false, not true; tags are none, not x; "
        "description is none, not mine; metadata differs in a",
        "hint: choose another name, or run: tpuctl node delete n1 --zone us-west4-a",
    ]
    assert tpuctl("node", "list").out == before


def test_a_node_that_another_client_made_alike_is_the_same(tpuctl):
    tpuctl(*CREATE)
    assert tpuctl("node", "update", "n1", "--labels", "tpuctl-request=").code == 0
    assert tpuctl(*CREATE).code == 0
    assert tpuctl(*CREATE, "--description", "mine").code == 11


def test_what_a_lost_answer_has_made_is_found_by_the_next_create(tpuctl):
    tpuctl("local", "fault", "CreateNode: lost answer x1")
    result = tpuctl(*CREATE)
    assert (result.code, result.err.splitlines()[-1]) == (
        42,
        "hint: run the same command again: it goes on with what was made; or run: tpuctl node "
        "describe n1 --zone us-west4-a",
    )
    assert tpuctl(*CREATE).code == 0
    assert tpuctl("node", "list", "-o", "name").out == "n1\n"


def test_a_node_that_goes_while_it_is_waited_for_was_not_made(tpuctl, cloud, at_home):
    tpuctl("local", "fault", "capacity us-west4-a v5litepod-16: 0")
    tpuctl(*CREATE, "--no-wait")
    result = tpuctl(*CREATE)
    assert (result.code, result.err.splitlines()[-2:]) == (
        12,
        [
            "error: node 'n1' disappeared during the wait: its creation failed, or somebody "
            "deleted it",
            "hint: run the same command again",
        ],
    )


def test_the_same_delete_again_goes_on_with_the_deletion(tpuctl, at_home):
    def ctrl_c(_):
        raise KeyboardInterrupt

    tpuctl(*CREATE)
    result = at_home(tpuctl.home, sleep=ctrl_c)(*DELETE)
    assert (result.code, result.err.splitlines()[-1]) == (
        130,
        "the deletion of node 'n1' in context 'local' goes on; wait for it: "
        "tpuctl node delete n1 --zone us-west4-a --yes",
    )
    result = tpuctl(*DELETE)
    assert (result.code, result.err) == (0, "deleted node 'n1' in context 'local'\n")
    assert tpuctl("node", "list").out == ""


def test_the_same_delete_of_a_request_s_node_goes_on_with_that_of_the_request(tpuctl, at_home):
    def ctrl_c(_):
        raise KeyboardInterrupt

    tpuctl("qr", "create", "q1", "-t", "v5litepod-16", "--node-id", "n1")
    tpuctl("qr", "wait", "q1")
    impatient = at_home(tpuctl.home, sleep=ctrl_c)
    assert impatient(*DELETE, "--node-only").code == 130  # the request is to go, too
    assert [impatient(*DELETE).code, tpuctl(*DELETE).code] == [130, 0]
    assert tpuctl("qr", "list").out == tpuctl("node", "list").out == ""


def test_a_node_in_another_zone_is_found_for_the_hint(tpuctl):
    tpuctl(*CREATE)
    result = tpuctl("node", "describe", "n1", "--zone", "us-central1-a")
    assert result.code == 10
    assert result.err == (
        "error: node 'n1' is not in us-central1-a but in us-west4-a\nhint: add: --zone us-west4-a\n"
    )


def test_a_slice_of_several_workers_cannot_be_stopped(tpuctl):
    tpuctl(*CREATE)
    assert tpuctl("node", "stop", "n1").code == 12


def test_errors_in_json_carry_the_reason(tpuctl):
    import json

    result = tpuctl("node", "describe", "nope", "-o", "json")
    assert json.loads(result.err) == {
        "error": "there is no node 'nope' in us-west4-a",
        "reason": "not_found",
        "exit_code": 10,
        "hint": "run: tpuctl node list",
    }


@pytest.mark.parametrize("output", ["json", "yaml", "name", "table"])
@pytest.mark.parametrize(
    "argv", [("node", "list"), ("node", "describe", "q1"), ("qr", "list"), ("qr", "describe", "q1")]
)
def test_every_format_prints_what_there_is(tpuctl, argv, output):
    tpuctl("qr", "create", "q1", "-t", "v5litepod-4", "--spot")
    tpuctl("qr", "wait", "q1")
    result = tpuctl(*argv, "-o", output)
    assert (result.code, result.err) == (0, "")
    assert "q1" in result.out


def test_a_noun_alone_shows_its_verbs(tpuctl):
    result = tpuctl("node")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: tpuctl node")
    assert "\n  create " in result.err
