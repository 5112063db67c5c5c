"""Which options of a slice go together: gcloud's rules, as tables, before anything is asked."""

from collections.abc import Callable, Mapping

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
    (("internal_ips", "no_internal_ips"), "leave one out"),
    (("node_id", "node_count"), "several nodes are named by --node-prefix"),
    (("node_id", "node_prefix"), "one node is named by --node-id, several by --node-prefix"),
    (("valid_after_duration", "valid_after_time"), "give one of them"),
    (("valid_until_duration", "valid_until_time"), "give one of them"),
)
"""At most one of each group, and what to do about it."""

NEEDED: tuple[tuple[str, str, str], ...] = (
    ("node_prefix", "node_count", "N"),
    ("flex_start", "max_run_duration", "24h (7 days at most)"),
    ("max_run_duration", "flex_start", ""),
)
"""The first is not valid without the second, whose value may be like the third."""


def option_name(name: str) -> str:
    """The option for a field name: `--node-count` for `node_count`."""
    return f"--{name.replace('_', '-')}"


def check_options(given: frozenset[str], name_of: Callable[[str], str] = option_name) -> None:
    """Refuse options that contradict or need each other; raises UsageError.

    Errors name an option by what `name_of` makes of its field's name.
    """
    for group, hint in EXCLUSIVE:
        both = [name for name in group if name in given]
        if len(both) > 1:
            raise UsageError(
                f"{name_of(both[0])} and {name_of(both[1])} exclude each other", hint=hint
            )
    for name, other, value in NEEDED:
        if name in given and other not in given:
            hint = f"add: {name_of(other)} {value}".rstrip()
            raise UsageError(f"{name_of(name)} needs {name_of(other)}", hint=hint)


def provisioning(given: frozenset[str]) -> Provisioning:
    """The provisioning model that the given options ask for."""
    return next((TIERS[name] for name in TIERS if name in given), Provisioning.ON_DEMAND)
