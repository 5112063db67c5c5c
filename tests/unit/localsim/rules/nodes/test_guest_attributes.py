"""Guest attributes: the service's own entries, and what each worker itself has PUT."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from unit.localsim.rules.cloud_rig import NODE, SINGLE, WORKER, ZONE

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

OWN = [("guest-attributes", "hostname", WORKER.hostname), ("hostkeys", "ssh-ed25519", "AAAA")]


def told(rig, query_path="", worker_ids=()):
    return [
        [(each.namespace, each.key, each.value) for each in entries]
        for entries in rig.cloud.guest_attributes(NODE, query_path, worker_ids)
    ]


def test_what_a_worker_puts_is_shown_behind_the_services_own_entries(rig):
    rig.ready()
    assert told(rig, worker_ids=["1"]) == [OWN]  # and nothing about a startup-script
    rig.cloud.put_guest_attribute(NODE, 1, "tpuctl", "startup", "exit 0")
    rig.cloud.put_guest_attribute(NODE, 1, "tpuctl", "tail", "done")
    rig.cloud.put_guest_attribute(NODE, 1, "tpuctl", "startup", "exit 1")
    rig.restart()
    entries = [("tpuctl", "startup", "exit 1"), ("tpuctl", "tail", "done")]
    assert told(rig) == [OWN, OWN + entries, OWN, OWN]
    assert told(rig, "tpuctl/", ["1", "0"]) == [entries, []]
    assert told(rig, "/tpuctl/tail", ["1"]) == [entries[1:]]


def test_a_worker_can_take_back_what_it_put(rig):
    rig.ready()
    rig.cloud.put_guest_attribute(NODE, 0, "a", "k", "v")
    rig.cloud.delete_guest_attribute(NODE, 0, "a", "k")
    assert told(rig, "a", ["0"]) == [[]]
    with pytest.raises(CloudError, match="not found"):
        rig.cloud.delete_guest_attribute(NODE, 0, "a", "k")


def test_entries_outlive_a_stop_and_end_with_the_node(rig):
    rig.ready(spec=SINGLE)
    rig.cloud.put_guest_attribute(NODE, 0, "a", "k", "v")
    rig.cloud.stop_node(NODE)
    rig.cloud.mark_slice_stopped(NODE)
    rig.cloud.start_node(NODE)
    rig.live()
    assert told(rig, "a") == [[("a", "k", "v")]]
    rig.cloud.delete_node(NODE)
    rig.tick(1)
    rig.ready(spec=SINGLE)
    assert told(rig, "a") == [[]]


def test_a_preempted_node_has_none(rig):
    rig.ready()
    rig.cloud.put_guest_attribute(NODE, 0, "a", "k", "v")
    rig.cloud.preempt(NODE, 0)
    rig.tick()
    assert rig.node().told == ()
    with pytest.raises(CloudError, match="while in state PREEMPTED") as refusal:
        told(rig)
    assert refusal.value.code == Code.FAILED_PRECONDITION
    with pytest.raises(CloudError, match="no running workers"):
        rig.cloud.put_guest_attribute(NODE, 0, "a", "k", "v")


def test_a_startup_script_may_put_before_the_node_is_ready(rig):
    rig.cloud.create_node(ZONE, "a", SINGLE)
    rig.tick(1)
    rig.cloud.put_guest_attribute(NODE, 0, "a", "k", "v")
    rig.cloud.mark_slice_booted(NODE, [WORKER])
    assert told(rig, "a") == [[("a", "k", "v")]]


@pytest.mark.parametrize(
    ("worker", "namespace", "key", "value", "cause"),
    [
        (4, "a", "k", "v", "no worker '4'"),
        (-1, "a", "k", "v", "no worker '-1'"),
        (0, "", "k", "v", "Invalid guest attribute"),
        (0, "a", "", "v", "Invalid guest attribute"),
        (0, "a/b", "k", "v", "Invalid guest attribute"),
        (0, "a", "k" * 129, "v", "Invalid guest attribute"),
        (0, "a", "k", "v" * (32 * 1024 + 1), "at most 32768 bytes"),
        (0, "a", "k", "é" * (16 * 1024 + 1), "at most 32768 bytes"),
    ],
)
def test_limits(rig, worker, namespace, key, value, cause):
    rig.ready()
    with pytest.raises(CloudError, match=cause) as refusal:
        rig.cloud.put_guest_attribute(NODE, worker, namespace, key, value)
    assert refusal.value.code == Code.INVALID_ARGUMENT
    assert rig.node().told == ()
