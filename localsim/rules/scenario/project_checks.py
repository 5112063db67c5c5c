"""The checks of what a scenario says about the project around Cloud TPU."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from localsim.rules.model.quota_pools import region_of
from localsim.rules.scenario import scenario_checks as checks
from localsim.rules.scenario.google_apis import SWITCHED
from localsim.rules.scenario.roles import ROLES
from tpuctl import catalog

EVERYBODY = "allUsers"
"""The member of a policy that a caller without token is."""
DEFAULT_ACCOUNT = "default"
"""Stands for Compute Engine's default service account in `service_accounts`."""
DEFAULT_RULES: Sequence[Mapping[str, Any]] = (
    {"name": "default-allow-icmp", "allow": ["icmp"], "source_ranges": ["0.0.0.0/0"]},
    {
        "name": "default-allow-internal",
        "allow": ["tcp:0-65535", "udp:0-65535", "icmp"],
        "source_ranges": ["10.128.0.0/9"],
    },
    {"name": "default-allow-rdp", "allow": ["tcp:3389"], "source_ranges": ["0.0.0.0/0"]},
    {"name": "default-allow-ssh", "allow": ["tcp:22"], "source_ranges": ["0.0.0.0/0"]},
)
"""The firewall rules with which a project's default network begins:
https://cloud.google.com/firewall/docs/firewalls#more_rules_default_vpc
"""
_SSH_PORT = 22
_ALLOWED = re.compile(r"[a-z0-9]{1,10}(:\d{1,5}(-\d{1,5})?)?")


def allowed_ports(key: str, value: Any) -> None:
    """Require a protocol, with a port or a range of ports if need be: `tcp:20-22`."""
    if not isinstance(value, str) or not _ALLOWED.fullmatch(value):
        raise checks.ScenarioError(f"scenario: {key} must be like tcp:22, not {str(value)[:100]!r}")


_FIREWALL: Mapping[str, checks.Check] = {
    "name": checks.text,
    "network": checks.text,
    "allow": checks.list_of(allowed_ports),
    "source_ranges": checks.list_of(checks.text),
    "disabled": checks.boolean,
}
_ROUTER: Mapping[str, checks.Check] = {
    "name": checks.text,
    "region": checks.text,
    "network": checks.text,
    "nats": checks.list_of(checks.text),
}


def region(key: str, value: Any) -> None:
    """Require a region that has zones of the catalog."""
    checks.check_known(key, "region", value, dict.fromkeys(map(region_of, catalog.zones())))


def member_roles(key: str, value: Any) -> None:
    """Require `{member of a policy: [roles]}`."""
    roles = checks.list_of(checks.one_of(*ROLES))
    for member, held in checks.mapping(key, value, "members to roles").items():
        checks.text(key, member)
        roles(f"{key}.{member}", held)


def service_accounts(key: str, value: Any) -> None:
    """Require `{account ID: enabled, disabled or absent}`."""
    state = checks.one_of("enabled", "disabled", "absent")
    for name, found in checks.mapping(key, value, "accounts to states").items():
        checks.text(key, name)
        if "@" in name:
            raise checks.ScenarioError(f"scenario: {key} takes IDs of accounts, not {name!r}")
        state(f"{key}.{name}", found)


def firewall_rules(configured: Sequence[Mapping[str, Any]] | None) -> Sequence[Mapping[str, Any]]:
    """The rules of the scenario's `firewalls`, which are Google's own where it has none."""
    return DEFAULT_RULES if configured is None else configured


def lets_ssh_in(rules: Sequence[Mapping[str, Any]]) -> bool:
    """Whether some rule admits connections to port 22, whoever makes them."""
    open_rules = [rule for rule in rules if not rule.get("disabled")]
    return any(_covers(allowed, _SSH_PORT) for rule in open_rules for allowed in rule["allow"])


def _covers(allowed: str, port: int) -> bool:
    protocol, _, ports = allowed.partition(":")
    first, _, last = ports.partition("-")
    is_in = not ports or int(first) <= port <= int(last or first)
    return protocol in ("tcp", "all") and is_in


DisabledApis = Annotated[Sequence[str], checks.list_of(checks.one_of(*SWITCHED))]
MemberRoles = Annotated[Mapping[str, Sequence[str]], member_roles]
ServiceAccounts = Annotated[Mapping[str, str], service_accounts]
Firewalls = Annotated[
    Sequence[Mapping[str, Any]] | None, checks.list_of_entries(_FIREWALL, ("name", "allow"))
]
Routers = Annotated[
    Sequence[Mapping[str, Any]], checks.list_of_entries(_ROUTER, ("name", "region"))
]
Regions = Annotated[Sequence[str], checks.list_of(region)]
