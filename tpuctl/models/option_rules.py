"""Which options of a slice go together: gcloud's rules, as tables, before anything is asked."""

from collections.abc import Mapping

from tpuctl.errors import UsageError
from tpuctl.models.node import Provisioning

TIERS: Mapping[str, Provisioning] = {
    "spot": Provisioning.SPOT,
    "best_effort": Provisioning.BEST_EFFORT,
    "flex_start": Provisioning.FLEX_START,
    "reserved": Provisioning.RESERVED,
    "reservation": Provisioning.RESERVED,
}
"""Option -> how capacity is obtained; none of them is on demand."""

EXCLUSIVE: tuple[tuple[tuple[str, ...], str], ...] = (
    (("spot", "reserved", "best_effort", "flex_start"), "choose one way to get capacity"),
    (("spot", "reservation"), "what is reserved is not spot: leave one out"),
    (("best_effort", "reservation"), "what is reserved is not best effort: leave one out"),
    (("flex_start", "reservation"), "flex-start draws on no reservation: leave one out"),
    (("node_id", "node_count"), "several nodes are named by --node-prefix"),
    (("node_id", "node_prefix"), "one node is named by --node-id, several by --node-prefix"),
    (("valid_after_duration", "valid_after_time"), "give one of them"),
    (("valid_until_duration", "valid_until_time"), "give one of them"),
)
"""At most one of each group, and what to do about it."""

NEEDED: tuple[tuple[str, str, str], ...] = (
    ("node_prefix", "node_count", "add: --node-count N"),
    ("flex_start", "max_run_duration", "add: --max-run-duration 24h (7 days at most)"),
    ("max_run_duration", "flex_start", "add: --flex-start"),
)
"""The first makes no sense without the second."""


def check_options(given: frozenset[str]) -> None:
    """Refuse options that contradict or need each other; raises UsageError."""
    for group, hint in EXCLUSIVE:
        both = [name for name in group if name in given]
        if len(both) > 1:
            raise UsageError(
                f"{option_name(both[0])} and {option_name(both[1])} exclude each other", hint=hint
            )
    for name, other, hint in NEEDED:
        if name in given and other not in given:
            raise UsageError(f"{option_name(name)} needs {option_name(other)}", hint=hint)


def provisioning(given: frozenset[str]) -> Provisioning:
    """The provisioning model that the given options ask for."""
    return next((TIERS[name] for name in TIERS if name in given), Provisioning.ON_DEMAND)


def option_name(name: str) -> str:
    """The option for a field name: `--node-count` for `node_count`."""
    return f"--{name.replace('_', '-')}"
