"""`tpuctl queued-resource` (`qr`): requests that wait for capacity."""

CREATE = ("qr", "create", "q1", "-t", "v5litepod-16", "--spot")


def test_create_returns_when_the_request_is_accepted(tpuctl):
    result = tpuctl(*CREATE, "-o", "json")
    assert result.code == 0
    (row,) = result.json
    assert row["state"] in ("CREATING", "ACCEPTED")
    assert row["nodes"] == ["q1"]
    assert row["usd_per_hour"] == 9.712


def test_json_keys_are_public(tpuctl):
    tpuctl(*CREATE)
    (row,) = tpuctl("queued-resource", "list", "-o", "json").json
    assert list(row) == [
        "name",
        "zone",
        "accelerator_type",
        "state",
        "nodes",
        "provisioning",
        "created",
        "usd_per_hour",
    ]


def test_wait_shows_every_state_until_active(tpuctl):
    tpuctl(*CREATE)
    result = tpuctl("qr", "wait", "q1", "-o", "json")
    assert result.code == 0
    assert result.json[0]["state"] == "ACTIVE"
    assert result.err.splitlines()[-1].startswith("queued resource q1: ACTIVE")
    assert tpuctl("node", "list", "-o", "json").json[0]["state"] == "READY"


def test_an_active_request_is_not_deleted_without_force(tpuctl):
    tpuctl(*CREATE)
    tpuctl("qr", "wait", "q1")
    result = tpuctl("qr", "delete", "q1", "--yes")
    assert result.code == 12
    assert result.err == (
        "error: queued resource 'q1' is ACTIVE: its node would be deleted too\n"
        "hint: run: tpuctl qr delete q1 --force\n"
    )
    assert tpuctl("qr", "delete", "q1", "--force", "--yes").code == 0
    assert tpuctl("qr", "list").out == tpuctl("node", "list").out == ""


def test_a_deletion_names_the_nodes_that_exist(tpuctl):
    tpuctl(*CREATE)
    asked = tpuctl("qr", "delete", "q1")
    assert "terminal: Delete queued resource 'q1' in context 'local' (" in asked.err
    tpuctl("qr", "wait", "q1")
    asked = tpuctl("qr", "delete", "q1", "--force")
    assert "terminal: Delete queued resource 'q1' and node 'q1' in context " in asked.err


def test_a_preempted_request_is_suspended_and_says_so(tpuctl):
    tpuctl(*CREATE)
    tpuctl("qr", "wait", "q1")
    tpuctl("local", "preempt", "q1", "--no-notice")
    result = tpuctl("qr", "wait", "q1")
    assert result.code == 31
    assert "queued resource 'q1' is SUSPENDED: its node was taken away" in result.err
    assert tpuctl("qr", "delete", "q1", "--yes").code == 0
    assert tpuctl("node", "list").out == ""


def test_the_same_request_again_goes_on_with_it_and_another_is_a_conflict(tpuctl):
    window = ("--valid-until-duration", "2h")
    tpuctl(*CREATE, *window)
    result = tpuctl(*CREATE, *window)
    assert (result.code, result.rows[0][0]) == (0, "q1")
    assert result.err.splitlines()[1:] == [
        "queued resource 'q1' exists already, with the same settings; tpuctl goes on with it"
    ]
    result = tpuctl(*CREATE, "--node-count", "2", "--best-effort")
    assert result.code == 2  # --spot and --best-effort
    result = tpuctl(*CREATE[:-1], "--node-count", "2")
    assert (result.code, result.err.splitlines()[-2:]) == (
        11,
        [
            "error: queued resource 'q1' exists already with another specification: provisioning "
            "is spot, not on-demand; node_count is 1, not 2; the window in which it may be granted "
            "is another",
            "hint: choose another name, or run: tpuctl qr delete q1 --zone us-west4-a",
        ],
    )


def test_a_request_that_was_lost_with_its_answer_is_filed_once(tpuctl):
    tpuctl("local", "fault", "CreateQueuedResource: lost answer x1")
    assert tpuctl(*CREATE).code == 0  # its request id lets the client ask again
    assert tpuctl("qr", "list", "-o", "name").out == "q1\n"


def test_the_same_create_of_a_failed_request_says_why_it_failed(tpuctl):
    tpuctl("local", "fault", "quota TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI: 8")
    tpuctl(*CREATE)
    assert tpuctl("qr", "wait", "q1").code == 30
    again = tpuctl(*CREATE)
    assert again.code == 30
    assert "queued resource 'q1' FAILED: the quota is used up" in again.err
    assert again.err.splitlines()[-1].startswith("hint: run: tpuctl qr delete q1")


def test_the_same_delete_of_a_request_goes_on_with_it(tpuctl, at_home):
    def ctrl_c(_):
        raise KeyboardInterrupt

    tpuctl(*CREATE)
    delete = ("qr", "delete", "q1", "--yes")
    assert at_home(tpuctl.home, sleep=ctrl_c)(*delete).code == 130
    assert tpuctl(*delete).code == 0
    assert tpuctl("qr", "list").out == ""


def test_an_unknown_request_is_not_found(tpuctl):
    result = tpuctl("qr", "describe", "nope")
    assert (result.code, result.err) == (
        10,
        "error: there is no queued resource 'nope' in us-west4-a\nhint: run: tpuctl qr list\n",
    )


def test_describe_names_who_suspended_it(tpuctl):
    tpuctl(*CREATE)
    tpuctl("qr", "wait", "q1")
    tpuctl("node", "delete", "q1", "--node-only", "--yes")
    tpuctl("qr", "wait", "q1")
    found = tpuctl("qr", "describe", "q1", "-o", "json").json
    assert (found["state"], found["state_initiator"]) == ("SUSPENDED", "USER")
