"""The project's VPC networks, their subnets, and the routers that give these a Cloud NAT.

A network has one subnet of its own name in each region, as auto mode makes them.
https://cloud.google.com/compute/docs/reference/rest/v1/subnetworks/setPrivateIpGoogleAccess
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from localsim.rules.model.quota_pools import region_of
from localsim.rules.model.resource_names import last_part
from localsim.services.other_apis.other_api_calls import COMPUTE, ApiCall, api_methods
from localsim.services.other_apis.project_setup.compute_calls import (
    DEFAULT_NETWORK,
    PROJECT,
    REGION,
    absent_resource,
    existing_resource,
    invalid_field,
    link,
    store_operation,
    stored_operation,
)
from tpuctl import catalog

_NETWORKS, _SUBNETS, _ROUTERS = (
    f"{PROJECT}/global/networks",
    f"{REGION}/subnetworks",
    f"{REGION}/routers",
)
_CIDR = "10.128.0.0/9"


def _list_networks(call: ApiCall) -> dict[str, Any]:
    known = call.project.scenario().networks
    names = [DEFAULT_NETWORK] if known is None else known
    return {
        "kind": "compute#networkList",
        "id": f"projects/{call.project.id}/global/networks",
        "items": [_network(call, name) for name in names],
        "selfLink": link(call, "/global/networks"),
    }


def _get_network(call: ApiCall) -> dict[str, Any]:
    return _network(call, _required_network(call, call.names["network"]))


async def _insert_network(call: ApiCall) -> dict[str, Any]:
    name = call.body.get("name")
    if not isinstance(name, str) or not name:
        raise invalid_field("name")
    known = call.project.scenario().networks
    if known is None or name in known:
        raise existing_resource(call, f"global/networks/{name}")
    setting = {"networks": [*known, name]}
    await call.project.cloud_port.run(lambda cloud: cloud.change_scenario(setting))
    return store_operation(call, "insert", f"/global/networks/{name}")


def _network(call: ApiCall, name: str) -> dict[str, Any]:
    regions = dict.fromkeys(map(region_of, catalog.zones()))
    return {
        "kind": "compute#network",
        "id": _id(name),
        "name": name,
        "autoCreateSubnetworks": True,
        "subnetworks": [link(call, f"/regions/{one}/subnetworks/{name}") for one in regions],
        "routingConfig": {"routingMode": "REGIONAL"},
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        "selfLink": link(call, f"/global/networks/{name}"),
    }


def _required_network(call: ApiCall, name: str) -> str:
    known = call.project.scenario().networks
    if known is not None and name not in known:
        raise absent_resource(call, f"global/networks/{name}")
    return name


def _get_subnet(call: ApiCall) -> dict[str, Any]:
    region = _required_region(call)
    name = call.names["subnetwork"]
    known = call.project.scenario().networks
    if known is not None and name not in known:
        raise absent_resource(call, f"regions/{region}/subnetworks/{name}")
    has_access = region not in call.project.scenario().subnets_without_google_access
    return {
        "kind": "compute#subnetwork",
        "id": _id(f"{region}/{name}"),
        "name": name,
        "network": link(call, f"/global/networks/{name}"),
        "ipCidrRange": _CIDR,
        "gatewayAddress": "10.128.0.1",
        "region": link(call, f"/regions/{region}"),
        "privateIpGoogleAccess": has_access,
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "fingerprint": _fingerprint(f"{region}/{name}/{has_access}"),
        "selfLink": link(call, f"/regions/{region}/subnetworks/{name}"),
    }


async def _set_google_access(call: ApiCall) -> dict[str, Any]:
    subnet, region = _get_subnet(call), call.names["region"]
    wanted = call.body.get("privateIpGoogleAccess") is True
    others = set(call.project.scenario().subnets_without_google_access) - {region}
    setting = {"subnets_without_google_access": sorted(others | (set() if wanted else {region}))}
    await call.project.cloud_port.run(lambda cloud: cloud.change_scenario(setting))
    target = f"/regions/{region}/subnetworks/{subnet['name']}"
    return _done(call, "compute.subnetworks.setPrivateIpGoogleAccess", target)


def _list_routers(call: ApiCall) -> dict[str, Any]:
    region = _required_region(call)
    shown = [_router(call, each) for each in _routers(call) if each["region"] == region]
    return {
        "kind": "compute#routerList",
        "id": f"projects/{call.project.id}/regions/{region}/routers",
        "items": shown,
        "selfLink": link(call, f"/regions/{region}/routers"),
    }


def _get_router(call: ApiCall) -> dict[str, Any]:
    return _router(call, _found_router(call))


async def _insert_router(call: ApiCall) -> dict[str, Any]:
    region, name = _required_region(call), call.body.get("name")
    if not isinstance(name, str) or not name:
        raise invalid_field("name")
    if any((each["name"], each["region"]) == (name, region) for each in _routers(call)):
        raise existing_resource(call, f"regions/{region}/routers/{name}")
    network = _required_network(call, last_part(str(call.body.get("network", ""))))
    router = {"name": name, "region": region, "network": network, "nats": _nats(call)}
    return await _replace_routers(call, [*_routers(call), router], router)


async def _patch_router(call: ApiCall) -> dict[str, Any]:
    before = _found_router(call)
    after = {**before, "nats": _nats(call)}
    others = [each for each in _routers(call) if each is not before]
    return await _replace_routers(call, [*others, after], after)


async def _replace_routers(
    call: ApiCall, routers: Sequence[Mapping[str, Any]], changed: Mapping[str, Any]
) -> dict[str, Any]:
    setting = {"routers": [dict(each) for each in routers]}
    await call.project.cloud_port.run(lambda cloud: cloud.change_scenario(setting))
    target = f"/regions/{changed['region']}/routers/{changed['name']}"
    return _done(call, "compute.routers.patch", target)


def _routers(call: ApiCall) -> Sequence[Mapping[str, Any]]:
    return call.project.scenario().routers


def _found_router(call: ApiCall) -> Mapping[str, Any]:
    region, name = _required_region(call), call.names["router"]
    for each in _routers(call):
        if (each["region"], each["name"]) == (region, name):
            return each
    raise absent_resource(call, f"regions/{region}/routers/{name}")


def _nats(call: ApiCall) -> list[str]:
    """The names of the NATs of a router in a request; raises HttpRefusal."""
    nats = call.body.get("nats", [])
    if not isinstance(nats, list) or not all(isinstance(one, dict) for one in nats):
        raise invalid_field("nats")
    return [str(one.get("name", "")) for one in nats]


def _router(call: ApiCall, router: Mapping[str, Any]) -> dict[str, Any]:
    name, region = router["name"], router["region"]
    nats = [
        {
            "name": nat,
            "natIpAllocateOption": "AUTO_ONLY",
            "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
        }
        for nat in router.get("nats", [])
    ]
    return {
        "kind": "compute#router",
        "id": _id(f"{region}/{name}"),
        "name": name,
        "network": link(call, f"/global/networks/{router.get('network', DEFAULT_NETWORK)}"),
        "region": link(call, f"/regions/{region}"),
        "selfLink": link(call, f"/regions/{region}/routers/{name}"),
        **({"nats": nats} if nats else {}),
    }


def _required_region(call: ApiCall) -> str:
    region = call.names["region"]
    if region not in set(map(region_of, catalog.zones())):
        raise absent_resource(call, f"regions/{region}")
    return region


def _done(call: ApiCall, kind: str, target: str) -> dict[str, Any]:
    return store_operation(call, kind, target, f"/regions/{call.names['region']}")


def _get_operation(call: ApiCall) -> Mapping[str, object]:
    return stored_operation(call, f"/regions/{call.names['region']}")


def _id(text: str) -> str:
    return str(10**18 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]))


def _fingerprint(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode("ascii")


ROWS = api_methods(
    COMPUTE,
    ("networks.list", f"GET {_NETWORKS}", "compute.networks.list", _list_networks),
    ("networks.get", f"GET {_NETWORKS}/{{network}}", "compute.networks.get", _get_network),
    ("networks.insert", f"POST {_NETWORKS}", "compute.networks.create", _insert_network),
    (
        "subnetworks.get",
        f"GET {_SUBNETS}/{{subnetwork}}",
        "compute.subnetworks.get",
        _get_subnet,
    ),
    (
        "subnetworks.setPrivateIpGoogleAccess",
        f"POST {_SUBNETS}/{{subnetwork}}/setPrivateIpGoogleAccess",
        "compute.subnetworks.setPrivateIpGoogleAccess",
        _set_google_access,
    ),
    ("routers.list", f"GET {_ROUTERS}", "compute.routers.list", _list_routers),
    ("routers.get", f"GET {_ROUTERS}/{{router}}", "compute.routers.get", _get_router),
    ("routers.insert", f"POST {_ROUTERS}", "compute.routers.create", _insert_router),
    ("routers.patch", f"PATCH {_ROUTERS}/{{router}}", "compute.routers.update", _patch_router),
    (
        "regionOperations.get",
        f"GET {REGION}/operations/{{operation}}",
        "compute.regionOperations.get",
        _get_operation,
    ),
    (
        "regionOperations.wait",
        f"POST {REGION}/operations/{{operation}}/wait",
        "compute.regionOperations.get",
        _get_operation,
    ),
)
