"""Checks of one node: its state, the way to its workers, and what these report now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING

from tpuctl.errors import PreconditionError, RefusedError, TpuctlError
from tpuctl.metrics.chip_state import HELD
from tpuctl.metrics.findings import host_rules, state_rules
from tpuctl.metrics.findings.observation import Finding, Observation
from tpuctl.metrics.samples import Sample, device_values
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.models.node import LOST_STATES, Node, NodeState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope
from tpuctl.operations.metrics import explain
from tpuctl.operations.slices import lifecycle

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.operations.jobs.events import JobRuntime

NODE, WAY, NODE_KEY, HOST_KEYS = "node", "way to the workers", "SSH key on the node", "host keys"
LOGIN, CHIPS, CHIP_METRICS, BOOT_DISK = "SSH login", "chips", "chip metrics", "boot disk"
NAMES = {"silent": LOGIN, "held": CHIPS, "disk-full": BOOT_DISK}
"""What the lines of some findings are called; the others have the finding's own name."""
FAILURES = frozenset({"unhealthy", "silent"})
"""Findings without whose end no command can work; with the others work goes on."""


@dataclass(frozen=True, slots=True)
class NodeTarget:
    """The node that is asked about, and the command's clients."""

    runtime: JobRuntime
    access: Access | None
    """None while there is no key yet, which the first login makes."""
    node: Node

    @property
    def placed(self) -> str:
        """The node as it is typed, with its zone."""
        return f"{self.node.name} --zone {self.node.zone}"

    @property
    def is_admitted(self) -> bool:
        """Whether the node lets our key in: OS Login decides, or the key is in its metadata."""
        from tpuctl.api.ssh import keys, os_login

        if os_login.is_on(self.node.metadata):
            return True
        metadata = dict(self.node.metadata)
        return self.access is not None and keys.with_key(metadata, self.access) is None


Ask = Callable[[NodeTarget, DoctorScope], Iterator[HealthCheck]]


def checks_of_node(target: NodeTarget) -> Sequence[DoctorCheck]:
    """The checks of a node, in the order of their lines; of one that is not READY only a few."""
    rows: list[tuple[str, Ask]] = [(NODE, ask_state), (WAY, ask_way)]
    if target.node.state == NodeState.READY:
        rows += [(NODE_KEY, ask_key), (HOST_KEYS, ask_host_keys), (LOGIN, ask_workers)]
    return [DoctorCheck(name, partial(ask, target)) for name, ask in rows]


def ask_state(target: NodeTarget, _: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the node is READY and healthy by what the API says, with its symptoms."""
    node = target.node
    seen = Observation(target.runtime.now(), node=node, zone=target.runtime.context.zone)
    try:
        lifecycle.require_ready(node)
    except TpuctlError as error:
        verb = lifecycle.NEXT_STEPS.get(node.state, "wait")
        fix = f"tpuctl node {verb} {target.placed}"
        is_coming = node.state not in {*LOST_STATES, NodeState.STOPPED}
        state = HealthState.WARN if is_coming else HealthState.FAIL
        yield HealthCheck(NODE, state, str(error), fix, error=None if is_coming else error)
        return
    findings = list(state_rules.node_state(seen))
    if not findings:
        evidence = f"{node.name} is READY, health {node.health}"
        yield HealthCheck(NODE, HealthState.PASS, evidence)
    yield from lines_of(findings, NODE)


def ask_way(target: NodeTarget, _: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the workers have addresses of the kind that the context's dialer goes to."""
    from tpuctl.api.ssh.dialers import DIRECT, parse_dialer

    context, workers = target.runtime.context, target.node.workers
    inner = [each for each in workers if each.external_ip is None]
    if not workers:
        return
    if parse_dialer(context.dialer).kind == DIRECT and inner:
        evidence = (
            f"{len(inner)} of {len(workers)} workers have no external address, and dialer 'direct' "
            f"goes to {inner[0].ip_address}, which only machines of its network reach"
        )
        fix = f"tpuctl context edit {quote(context.name)} --dialer iap"
        yield HealthCheck(WAY, HealthState.WARN, evidence, fix)
        return
    evidence = f"dialer {context.dialer.partition(':')[0]!r} to {len(workers)} addresses"
    yield HealthCheck(WAY, HealthState.PASS, evidence)


def ask_key(target: NodeTarget, _: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the node lets our key in already; the first login puts it there."""
    from tpuctl.api.ssh import os_login

    if os_login.is_on(target.node.metadata):
        yield HealthCheck(NODE_KEY, HealthState.PASS, "OS Login decides who may log in")
    elif target.is_admitted:
        yield HealthCheck(NODE_KEY, HealthState.PASS, "it is in the node's metadata")
    else:
        evidence = "it is not in the node's metadata; the first login puts it there"
        fix = f"tpuctl node exec {target.placed} -- true"
        yield HealthCheck(NODE_KEY, HealthState.WARN, evidence, fix, is_safe=True)


def ask_host_keys(target: NodeTarget, scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the API reports the host key of every worker, and those that are kept here."""
    from tpuctl.api.ssh import keys, known_hosts

    node = target.node
    directory = keys.key_paths(scope.home)[0].parent / "known_hosts"
    told = target.runtime.tpu.host_keys(node.zone, node.name)
    kept = known_hosts.pinned_identities(directory, node)
    unknown = [number for number, key in enumerate(told) if not key and number not in kept]
    other = [
        n for n, key in enumerate(told) if key and n in kept and not _is_same(key, kept[n].host_key)
    ]
    if other:
        path = known_hosts.known_hosts_path(directory, node)
        evidence = f"worker {other[0]} has another host key than the one that is kept in {path}"
        error = RefusedError(evidence)
        yield HealthCheck(
            HOST_KEYS, HealthState.FAIL, evidence, f"rm {quote(str(path))}", error=error
        )
    elif unknown:
        evidence = f"the API does not report the host key of worker {unknown[0]}"
        fix = (
            "gcloud org-policies describe compute.disableGuestAttributesAccess "
            f"--project {target.runtime.context.project}"
        )
        error = RefusedError(evidence)
        yield HealthCheck(HOST_KEYS, HealthState.FAIL, evidence, fix, error=error)
    else:
        yield HealthCheck(HOST_KEYS, HealthState.PASS, f"the API reports {len(told)}")


def _is_same(told: str, kept: str) -> bool:
    """Whether two lines have the same key, whatever stands before or after it."""
    return told.split()[-1:] == kept.split()[-1:]


def ask_workers(target: NodeTarget, _: DoctorScope) -> Iterator[HealthCheck]:
    """Log in to the workers, measure them by the agent's probe, and judge by explain's rules."""
    if not target.is_admitted or target.access is None:
        evidence = "not tried: the node does not have our key yet"
        yield HealthCheck(LOGIN, HealthState.UNKNOWN, evidence)
        return
    try:
        found = explain.explain_node(target.runtime, target.access, target.node)
    except RefusedError as error:
        yield HealthCheck(LOGIN, HealthState.FAIL, str(error), error=error)
        return
    findings = [each for each in found.findings if each not in _of_state(found.seen)]
    yield from fine_lines(found.seen, {each.name for each in findings})
    yield from lines_of(findings)


def _of_state(seen: Observation) -> list[Finding]:
    return list(state_rules.node_state(seen))


def fine_lines(seen: Observation, wrong: set[str]) -> Iterator[HealthCheck]:
    """The lines of what no finding is about."""
    newest = [each.samples[-1] for each in seen.series if each.samples]
    if "silent" not in wrong:
        evidence = f"{len(newest)} workers let us in and run the agent's probe"
        yield HealthCheck(LOGIN, HealthState.PASS, evidence)
    if newest and "held" not in wrong:
        held = sum(bool(sample.values.get(HELD)) for sample in newest)
        evidence = f"held on {held} of {len(newest)} workers" if held else "free"
        yield HealthCheck(CHIPS, HealthState.PASS, evidence)
    if newest:
        yield _metrics_line(newest)
    if newest and "disk-full" not in wrong and (share := _fullest(newest)) is not None:
        evidence = f"{100 * share:.0f} % used on the worker that has the least left"
        yield HealthCheck(BOOT_DISK, HealthState.PASS, evidence)


def _metrics_line(newest: Sequence[Sample]) -> HealthCheck:
    """Whether libtpu's metric service answers; while no program is loaded, nothing listens."""
    telling = sum(bool(device_values(each, "chip.duty_cycle_percent")) for each in newest)
    evidence = f"libtpu reports them on {telling} of {len(newest)} workers"
    if not telling:
        evidence = "none, as no program is loaded"
    return HealthCheck(CHIP_METRICS, HealthState.PASS, evidence)


def _fullest(newest: Iterable[Sample]) -> float | None:
    used, total = host_rules.DISK
    shares = [each.values[used] / each.values[total] for each in newest if each.values.get(total)]
    return max(shares, default=None)


def lines_of(findings: Iterable[Finding], name: str = "") -> Iterator[HealthCheck]:
    """A line for each finding of explain's rules; `name` in place of the finding's own."""
    for each in findings:
        evidence = f"{each.sentence} ({each.evidence})"
        is_failure = each.name in FAILURES
        state = HealthState.FAIL if is_failure else HealthState.WARN
        error = PreconditionError(evidence) if is_failure else None
        line = name or NAMES.get(each.name, each.name)
        yield HealthCheck(line, state, evidence, each.command, error=error)
