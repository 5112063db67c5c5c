"""Same seed, same history, and what holds at every moment of it."""

from dataclasses import asdict
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.model.cloud_errors import CloudError
from localsim.rules.model.nodes import Scheduling
from localsim.rules.model.queued_resources import Tier
from localsim.rules.scenario.scenario import Scenario
from unit.localsim.rules.cloud_rig import START_S, ZONE, Rig
from unit.localsim.rules.requests.requests_asked import asked, file, node

STORM = Scenario(
    seed=5,
    provisioning_delay_s={"lognormal": [5, 1.0]},
    spot_lifetime_s={"exponential": 20},
    capacity={
        "us-west4-a": {"v5litepod-16": [{"at_s": 0, "slices": 1}, {"at_s": 30, "slices": 3}]}
    },
    quota={"TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI": 48},
    maintenance=[{"nodes": "n*", "after_s": 10, "notice_s": 5}],
    faults=["CreateNode: UNAVAILABLE x2 after call 1", "*: latency 1s x5"],
)
NAMES = ("a", "b", "c")
REQUESTS = f"{ZONE}/queuedResources"


def slices(count):
    return {"capacity": {"*": {"v5litepod-16": count}}}


def act(rig, kind, name):
    """One call, fault included, and how it ended."""
    verdict = rig.cloud.meet_fault("CreateNode" if kind == "create" else "GetNode")
    spot = node(scheduling=Scheduling(spot=True))
    calls = {
        "create": lambda: rig.cloud.create_node(ZONE, f"n{name}", spot).name,
        "delete": lambda: rig.cloud.delete_node(f"{ZONE}/nodes/n{name}").name,
        "file": lambda: file(rig, name, asked(slices=2, tier=Tier.SPOT)).name,
        "drop": lambda: rig.cloud.delete_queued_resource(f"{REQUESTS}/{name}", force=True).name,
        "reset": lambda: rig.cloud.reset_queued_resource(f"{REQUESTS}/{name}").name,
        "squeeze": lambda: rig.cloud.change_scenario(slices(NAMES.index(name))).seed,
        "lose": lambda: rig.cloud.preempt(f"{ZONE}/nodes/{name}-1", 0),
        "renew": lambda: rig.cloud.perform_maintenance(f"{ZONE}/nodes/n{name}").name,
        "preempt": lambda: rig.cloud.preempt(f"{ZONE}/nodes/n{name}", None),
    }
    try:
        return verdict, calls[kind]()
    except CloudError as error:
        return verdict, error.message


def everything(rig):
    """All that clients can see, and what is promised."""
    cloud = rig.cloud
    lists = (cloud.list_nodes, cloud.list_queued_resources, cloud.list_operations)
    seen = [asdict(item) for each in lists for item in each(ZONE).items]
    return seen, cloud.quotas(), cloud.faults(), cloud.next_due_s()


def check(rig):
    """What is true at every moment."""
    nodes = rig.cloud.list_nodes(ZONE).items
    assert sum(each.has_capacity for each in nodes) <= 3
    assert all(each.limit is None or each.usage <= each.limit for each in rig.cloud.quotas())
    for request in rig.cloud.list_queued_resources(ZONE).items:
        owned = [each for each in nodes if each.queued_resource == request.name]
        living = [each for each in owned if each.state != "DELETING"]
        if request.state in ("PROVISIONING", "ACTIVE"):
            assert len(owned) == len(request.spec.nodes)
        elif request.state not in ("SUSPENDING", "SUSPENDED"):
            assert living == []
        assert (request.failure is not None) == (request.state == "FAILED")


CALLS = ("create", "delete", "file", "drop", "reset", "preempt", "lose", "renew", "squeeze")
STEP = st.tuples(st.just("pass"), st.sampled_from([0.0, 0.4, 3.0, 40.0])) | st.tuples(
    st.sampled_from(CALLS), st.sampled_from(NAMES)
)


@given(st.lists(STEP, max_size=20))
def test_two_clouds_have_one_history(steps):
    with TemporaryDirectory() as directory:
        steady = Rig(f"{directory}/steady.sqlite", STORM)
        restless = Rig(f"{directory}/restless.sqlite", STORM)
        try:
            for kind, argument in steps:
                check(restless)
                if kind == "pass":
                    steady.live(argument)
                    restless.live(argument)
                    restless.restart()
                else:
                    assert act(steady, kind, argument) == act(restless, kind, argument)
            assert everything(steady) == everything(restless)
        finally:
            steady.close()
            restless.close()


def test_another_seed_has_another_history(tmp_path):
    seen = []
    for seed in (1, 2):
        rig = Rig(tmp_path / f"{seed}.sqlite", STORM.changed({"seed": seed}))
        act(rig, "create", "a")
        seen.append(rig.cloud.next_due_s() - START_S)
        rig.close()
    assert seen[0] != seen[1]
