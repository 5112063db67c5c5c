"""What the lines of a node say, by the rules of explain and by the context's dialer."""

from dataclasses import replace
from types import SimpleNamespace

from tpuctl.config import Context
from tpuctl.metrics.findings.observation import Finding, Observation
from tpuctl.metrics.samples import Sample, WorkerSamples
from tpuctl.models.health import HealthState
from tpuctl.models.node import Node, NodeState, Worker
from tpuctl.operations.health.checks.target import node_checks
from tpuctl.operations.health.checks.target.node_checks import NodeTarget

NOW_S = 1_800_000_000.0
WORKERS = (Worker(0, "10.0.0.2"), Worker(1, "10.0.0.3", "203.0.113.7"))
NODE = Node(
    "n1", "us-west4-a", 4711, "v5litepod-8", "v2-alpha-tpuv5-lite", NodeState.READY, "on-demand",
    NOW_S, workers=WORKERS,
)  # fmt: skip
LAB = Context("lab", "p", "us-west4-a", "b")
WELL = {"chip.held": 0.0, "host.disk_used_bytes": 40.0, "host.disk_total_bytes": 100.0}


def target(node: Node = NODE, **changes) -> NodeTarget:
    context = replace(LAB, **changes)
    return NodeTarget(SimpleNamespace(context=context, now=lambda: NOW_S), None, node)


def seen(*values) -> Observation:
    series = [WorkerSamples(0, number, [Sample(NOW_S, each)]) for number, each in enumerate(values)]
    return Observation(NOW_S, node=NODE, series=series)


def finding(name: str) -> Finding:
    return Finding(name, (1,), "it is so", "seen 3 times", "tpuctl node free n1 --worker 1")


def lines(found: Observation, *findings: Finding) -> dict[str, tuple[str, str]]:
    """State and evidence by the name of the line."""
    wrong = {each.name for each in findings}
    every = [*node_checks.fine_lines(found, wrong), *node_checks.lines_of(findings)]
    return {line.name: (line.state.value, line.evidence) for line in every}


def test_workers_without_external_addresses_are_reached_by_the_dialer_of_the_fix():
    (line,) = node_checks.ask_way(target(), None)
    assert (line.state, line.fix) == (
        HealthState.WARN, "tpuctl context edit lab --dialer iap",
    )  # fmt: skip
    assert line.evidence == (
        "1 of 2 workers have no external address, and dialer 'direct' goes to 10.0.0.2, which "
        "only machines of its network reach"
    )
    (line,) = node_checks.ask_way(target(dialer=line.fix.rpartition(" ")[2]), None)
    assert (line.state, line.evidence) == (HealthState.PASS, "dialer 'iap' to 2 addresses")


def test_a_node_on_its_way_is_a_warning_and_a_lost_one_a_failure():
    states = {
        NodeState.CREATING: ("warn", 0, "wait"),
        NodeState.STOPPED: ("fail", 12, "start"),
        NodeState.PREEMPTED: ("fail", 31, "delete"),
    }
    for state, expected in states.items():
        (line,) = node_checks.ask_state(target(replace(NODE, state=state)), None)
        verb = line.fix.split()[2]
        assert (line.state.value, line.exit_code, verb) == expected
        names = [row.name for row in node_checks.checks_of_node(target(replace(NODE, state=state)))]
        assert names == ["node", "way to the workers"]


def test_workers_that_are_well():
    assert lines(seen(WELL, {**WELL, "host.disk_used_bytes": 60.0})) == {
        "SSH login": ("pass", "2 workers let us in and run the agent's probe"),
        "chips": ("pass", "free"),
        "chip metrics": ("pass", "none, as no program is loaded"),
        "boot disk": ("pass", "60 % used on the worker that has the least left"),
    }
    busy = {**WELL, "chip.held": 1.0, "chip.duty_cycle_percent/0": 80.0}
    shown = lines(seen(busy, WELL))
    assert shown["chips"] == ("pass", "held on 1 of 2 workers")
    assert shown["chip metrics"] == ("pass", "libtpu reports them on 1 of 2 workers")


def test_a_finding_takes_the_place_of_the_line_that_is_fine():
    text = "it is so (seen 3 times)"
    found = lines(seen(WELL), finding("silent"), finding("held"), finding("disk-full"))
    assert found["SSH login"] == ("fail", text)
    assert found["chips"] == ("warn", text)
    assert found["boot disk"] == ("warn", text)
    assert lines(seen(WELL), finding("clock-off"))["clock-off"] == ("warn", text)
