"""A worker that is in trouble: which one, and why, as the command line shows it."""

FOUR = ("node", "create", "n1", "-t", "v5litepod-16", "--spot")


def describe(tpuctl):
    return tpuctl("node", "describe", "n1", "-o", "json").json


def test_the_node_tells_which_worker_is_down_and_why(tpuctl, cloud):
    tpuctl(*FOUR)
    added = tpuctl("local", "fault", "worker", "n1/2:", "killed")
    assert (added.code, describe(tpuctl)["health"]) == (0, "HEALTHY")
    cloud.control.advance(60)
    found = describe(tpuctl)
    sentence = "Worker 2 is down: its machine has failed."
    assert (found["health"], found["health_description"]) == ("TIMEOUT", sentence)
    (symptom,) = found["symptoms"]
    assert (symptom["worker"], symptom["kind"], symptom["details"]) == (
        "2",
        "MESH_BUILD_FAIL",
        sentence,
    )
    assert f"health of the node: TIMEOUT: {sentence}\n" in tpuctl("node", "workers", "n1").err
    shown = tpuctl("node", "describe", "n1").out
    assert sentence in shown
    assert "worker=2" in shown


def test_a_worker_that_answers_again_is_healthy_again(tpuctl, cloud):
    tpuctl(*FOUR)
    tpuctl("local", "fault", "worker n*/0: hangs")
    cloud.control.advance(60)
    assert describe(tpuctl)["health_description"] == "Worker 0 is up but does not respond."
    tpuctl("local", "fault", "--clear")
    cloud.control.advance(60)
    found = describe(tpuctl)
    assert (found["health"], found["health_description"]) == ("HEALTHY", "")
    assert [each["worker"] for each in found["symptoms"]] == ["0"]


def test_a_fault_that_is_not_understood_is_refused(tpuctl):
    refused = tpuctl("local", "fault", "worker n1/2: hung")
    assert (refused.code, tpuctl("local", "fault", "-o", "json").json) == (2, [])
    assert "nearest: hangs" in refused.err


def test_a_disk_that_cannot_be_filled_is_not_said_to_be_full(offline):
    offline("local", "up", "--isolation", "process")
    refused = offline("local", "fault", "worker n1/0: disk full")
    assert (refused.code, offline("local", "fault", "-o", "json").json) == (12, [])
    assert "share this machine's disk" in refused.err
