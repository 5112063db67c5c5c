"""The firewall rules of the project's networks: those that let traffic in.

https://cloud.google.com/compute/docs/reference/rest/v1/firewalls
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from localsim.rules.model.resource_names import last_part
from localsim.rules.scenario.project_checks import firewall_rules
from localsim.services.other_apis.other_api_calls import (
    COMPUTE,
    ApiCall,
    HttpRefusal,
    api_methods,
)
from localsim.services.other_apis.project_setup.compute_calls import (
    DEFAULT_NETWORK,
    PROJECT,
    absent_resource,
    existing_resource,
    invalid_field,
    link,
    store_operation,
)

_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_PROTOCOL = re.compile(r"[a-z0-9]{1,10}")
_PORTS = re.compile(r"\d{1,5}(-\d{1,5})?")
_ABSENT = (
    *("denied", "destinationRanges", "sourceServiceAccounts", "sourceTags"),
    *("targetServiceAccounts", "targetTags"),
)
_RULES = f"{PROJECT}/global/firewalls"
_RULE = f"{_RULES}/{{firewall}}"
_GET, _LIST, _CREATE, _DELETE = (
    f"compute.firewalls.{verb}" for verb in ("get", "list", "create", "delete")
)


def _list_rules(call: ApiCall) -> dict[str, Any]:
    return {
        "kind": "compute#firewallList",
        "id": f"projects/{call.project.id}/global/firewalls",
        "items": [_shown(call, rule) for rule in _rules(call)],
        "selfLink": link(call, "/global/firewalls"),
    }


def _get_rule(call: ApiCall) -> dict[str, Any]:
    return _shown(call, _found(call))


async def _insert(call: ApiCall) -> dict[str, Any]:
    rule = _checked(call.body)
    if any(rule["name"] == known["name"] for known in _rules(call)):
        raise existing_resource(call, f"global/firewalls/{rule['name']}")
    return await _replace(call, [*_rules(call), rule], rule["name"], "insert")


async def _delete(call: ApiCall) -> dict[str, Any]:
    gone = _found(call)
    rest = [rule for rule in _rules(call) if rule is not gone]
    return await _replace(call, rest, gone["name"], "delete")


async def _replace(
    call: ApiCall, rules: Sequence[Mapping[str, Any]], name: str, verb: str
) -> dict[str, Any]:
    await call.project.cloud_port.run(
        lambda cloud: cloud.change_scenario({"firewalls": [dict(rule) for rule in rules]})
    )
    return store_operation(call, verb, f"/global/firewalls/{name}")


def _rules(call: ApiCall) -> Sequence[Mapping[str, Any]]:
    return firewall_rules(call.project.scenario().firewalls)


def _found(call: ApiCall) -> Mapping[str, Any]:
    name = call.names["firewall"]
    for rule in _rules(call):
        if rule["name"] == name:
            return rule
    raise absent_resource(call, f"global/firewalls/{name}")


def _checked(body: Mapping[str, Any]) -> dict[str, Any]:
    """The rule of a request as the scenario has it; raises HttpRefusal."""
    name, network = body.get("name"), body.get("network", DEFAULT_NETWORK)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid_field("name")
    if not isinstance(network, str):
        raise invalid_field("network")
    absent = [key for key in _ABSENT if body.get(key)]
    if absent or body.get("direction", "INGRESS") != "INGRESS":
        what = absent[0] if absent else "direction"
        sentence = f"The field {what!r} of a firewall rule is not emulated by localsim"
        raise HttpRefusal(501, "notImplemented", sentence)
    ranges = body.get("sourceRanges") or ["0.0.0.0/0"]
    if not isinstance(ranges, list) or not all(isinstance(one, str) for one in ranges):
        raise invalid_field("sourceRanges")
    return {
        "name": name,
        "network": last_part(network),
        "allow": _allowed(body.get("allowed")),
        "source_ranges": ranges,
        "disabled": body.get("disabled") is True,
    }


def _allowed(given: Any) -> list[str]:
    """`[{"IPProtocol": "tcp", "ports": ["22"]}]` as `["tcp:22"]`; raises HttpRefusal."""
    if not isinstance(given, list) or not given:
        raise invalid_field("allowed")
    allowed = []
    for each in given:
        protocol = each.get("IPProtocol") if isinstance(each, dict) else None
        ports = each.get("ports", []) if isinstance(each, dict) else None
        if not isinstance(protocol, str) or not _PROTOCOL.fullmatch(protocol):
            raise invalid_field("allowed[0].IPProtocol")
        if not isinstance(ports, list):
            raise invalid_field("allowed")
        if not all(isinstance(port, str) and _PORTS.fullmatch(port) for port in ports):
            raise invalid_field("allowed[0].ports")
        allowed += [f"{protocol}:{port}" for port in ports] or [protocol]
    return allowed


def _shown(call: ApiCall, rule: Mapping[str, Any]) -> dict[str, Any]:
    name = rule["name"]
    ports: dict[str, list[str]] = {}
    for each in rule["allow"]:
        protocol, _, port = each.partition(":")
        ports.setdefault(protocol, []).extend([port] if port else [])
    network = rule.get("network", DEFAULT_NETWORK)
    return {
        "kind": "compute#firewall",
        "id": str(1 + sum(name.encode())),
        "name": name,
        "network": link(call, f"/global/networks/{network}"),
        "priority": 1000,
        "sourceRanges": list(rule.get("source_ranges", ["0.0.0.0/0"])),
        "allowed": [
            {"IPProtocol": protocol, **({"ports": listed} if listed else {})}
            for protocol, listed in ports.items()
        ],
        "direction": "INGRESS",
        "logConfig": {"enable": False},
        "disabled": rule.get("disabled", False),
        "selfLink": link(call, f"/global/firewalls/{name}"),
    }


ROWS = api_methods(
    COMPUTE,
    ("firewalls.list", f"GET {_RULES}", _LIST, _list_rules),
    ("firewalls.get", f"GET {_RULE}", _GET, _get_rule),
    ("firewalls.insert", f"POST {_RULES}", _CREATE, _insert),
    ("firewalls.delete", f"DELETE {_RULE}", _DELETE, _delete),
)
