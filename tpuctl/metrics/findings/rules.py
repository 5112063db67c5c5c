"""The rules in the order in which their findings are shown: what stops a job comes first."""

from collections.abc import Callable, Iterator

from tpuctl.metrics.findings import (
    chip_rules,
    host_rules,
    peer_rules,
    program_rules,
    state_rules,
)
from tpuctl.metrics.findings.observation import Finding, Observation

Rule = Callable[[Observation], Iterator[Finding]]
"""Says what it finds; silent where what it looks at was not measured."""
RULES: tuple[Rule, ...] = (
    state_rules.node_state,
    state_rules.failed,
    state_rules.hung,
    host_rules.silent,
    chip_rules.held,
    chip_rules.idle,
    host_rules.memory,
    host_rules.disk,
    chip_rules.chip_memory,
    peer_rules.straggler,
    chip_rules.input_bound,
    program_rules.recompiling,
    program_rules.slow_checkpoint,
    peer_rules.network,
    host_rules.clock,
)


def findings(seen: Observation) -> list[Finding]:
    """Everything that is wrong with a job or a node, each once with all its evidence."""
    told: dict[tuple[str, tuple[int, ...]], Finding] = {}
    for found in (found for rule in RULES for found in rule(seen)):
        key = found.name, found.workers
        first = told.get(key)
        told[key] = (
            first._replace(evidence=f"{first.evidence}; {found.evidence}") if first else found
        )
    return list(told.values())
