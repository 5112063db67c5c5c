"""The part of Compute Engine that those who use TPUs ask: metadata of the project, addresses."""

import re
from collections.abc import Mapping
from typing import Any

from localsim.rules.model.quota_pools import region_of
from localsim.rules.project.project_metadata import StaleFingerprintError
from localsim.services.other_apis.other_api_calls import COMPUTE, ApiCall, HttpRefusal, api_methods
from localsim.services.other_apis.project_setup.compute_calls import (
    PROJECT,
    absent_resource,
    finished_operation,
    invalid_field,
    link,
    stored_operation,
)
from tpuctl import catalog

MANY_ADDRESSES = 1_000_000
"""The limit that is shown where the scenario has none: Compute Engine always shows one."""
MOST_VALUE_BYTES = 256 * 1024
_KEY = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def _get_project(call: ApiCall) -> dict[str, Any]:
    project = call.project
    items = [{"key": key, "value": value} for key, value in project.metadata.items().items()]
    metadata = {"kind": "compute#metadata", "fingerprint": project.metadata.fingerprint()}
    return {
        "kind": "compute#project",
        "id": str(project.number),
        "name": project.id,
        "selfLink": link(call, ""),
        "commonInstanceMetadata": {**metadata, **({"items": items} if items else {})},
        "defaultServiceAccount": f"{project.number}-compute@developer.gserviceaccount.com",
        "defaultNetworkTier": "PREMIUM",
        "vmDnsSetting": "ZONAL_ONLY",
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
    }


def _set_metadata(call: ApiCall) -> dict[str, Any]:
    operation = finished_operation(call, "compute.projects.setCommonInstanceMetadata", "")
    fingerprint = str(call.body.get("fingerprint", ""))
    try:
        call.project.metadata.replace(_items(call.body), fingerprint, operation)
    except StaleFingerprintError:
        sentence = "Supplied fingerprint does not match current metadata fingerprint."
        raise HttpRefusal(412, "conditionNotMet", sentence) from None
    call.project.cloud_port.project_changed()
    return operation


def _get_operation(call: ApiCall) -> Mapping[str, object]:
    return stored_operation(call, "/global")


async def _get_region(call: ApiCall) -> dict[str, Any]:
    """A region with its quota of external addresses, as Region.quotas of Compute Engine has it."""
    name = call.names["region"]
    zones = [zone for zone in catalog.zones() if region_of(zone) == name]
    if not zones:
        raise absent_resource(call, f"regions/{name}")
    usage = await call.project.cloud_port.run(lambda cloud: cloud.address_quota(name))
    limit = float(MANY_ADDRESSES if usage.limit is None else usage.limit)
    return {
        "kind": "compute#region",
        "name": name,
        "description": name,
        "status": "UP",
        "zones": [link(call, f"/zones/{zone}") for zone in zones],
        "quotas": [{"metric": usage.quota_id, "limit": limit, "usage": float(usage.usage)}],
        "selfLink": link(call, f"/regions/{name}"),
    }


def _items(body: Mapping[str, Any]) -> dict[str, str]:
    """The pairs of a compute#metadata; raises HttpRefusal."""
    items = body.get("items", [])
    if not isinstance(items, list):
        raise invalid_field("items")
    pairs: dict[str, str] = {}
    for item in items:
        pair = item if isinstance(item, dict) else {}
        key, value = pair.get("key"), pair.get("value")
        if not isinstance(key, str) or not _KEY.fullmatch(key) or key in pairs:
            raise invalid_field("items.key")
        if not isinstance(value, str) or len(value.encode()) > MOST_VALUE_BYTES:
            raise invalid_field("items.value")
        pairs[key] = value
    return pairs


ROWS = api_methods(
    COMPUTE,
    ("projects.get", f"GET {PROJECT}", "compute.projects.get", _get_project),
    (
        "projects.setCommonInstanceMetadata",
        f"POST {PROJECT}/setCommonInstanceMetadata",
        "compute.projects.setCommonInstanceMetadata",
        _set_metadata,
    ),
    (
        "globalOperations.get",
        f"GET {PROJECT}/global/operations/{{operation}}",
        "compute.globalOperations.get",
        _get_operation,
    ),
    (
        "globalOperations.wait",
        f"POST {PROJECT}/global/operations/{{operation}}/wait",
        "compute.globalOperations.get",
        _get_operation,
    ),
    ("regions.get", f"GET {PROJECT}/regions/{{region}}", "compute.regions.get", _get_region),
)
