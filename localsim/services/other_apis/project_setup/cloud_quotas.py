"""The part of Cloud Quotas that asks for another limit; here it is granted at once.

https://cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.quotaPreferences/create
"""

from collections.abc import Mapping
from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.quota_pools import pools, quota_ids, region_of
from localsim.services.other_apis.other_api_calls import QUOTAS, ApiCall, api_methods
from localsim.services.storage.resources.object_resources import timestamp
from tpuctl import catalog

_PREFERENCES = "/{version}/projects/{project}/locations/global/quotaPreferences"
_PERMISSION = "cloudquotas.quotas.update"


async def _create(call: ApiCall) -> dict[str, Any]:
    quota_id, place, value = _checked(call.body)
    limits = {**_limits(call, quota_id), place: value}
    await call.project.cloud_port.run(
        lambda cloud: cloud.change_scenario({"quota": {quota_id: limits}})
    )
    number = call.project.number
    preference = call.query.get("quotaPreferenceId") or f"{quota_id.lower()}-{place}"
    parent = f"projects/{number}/locations/global/quotaPreferences"
    moment = timestamp(call.project.now())
    return {
        "name": f"{parent}/{preference}",
        "service": call.body["service"],
        "quotaId": quota_id,
        "dimensions": call.body["dimensions"],
        "quotaConfig": {"preferredValue": str(value), "grantedValue": str(value)},
        "createTime": moment,
        "updateTime": moment,
    }


def _checked(body: Mapping[str, Any]) -> tuple[str, str, int]:
    """Quota id, zone or region, and the value that is asked for; raises CloudError."""
    quota_id, dimensions = body.get("quotaId"), body.get("dimensions")
    if not isinstance(quota_id, str) or quota_id not in quota_ids():
        raise CloudError(Code.NOT_FOUND, f"Quota {quota_id} was not found.")
    places = list(dimensions.values()) if isinstance(dimensions, Mapping) else []
    if len(places) != 1 or places[0] not in _places(quota_id):
        raise CloudError(Code.INVALID_ARGUMENT, "Invalid dimensions of the quota.")
    config = body.get("quotaConfig")
    try:
        value = int(config["preferredValue"]) if isinstance(config, Mapping) else -1
    except (KeyError, TypeError, ValueError):
        value = -1
    if not 0 <= value < 2**31:
        raise CloudError(Code.INVALID_ARGUMENT, "preferredValue must be a number from 0 on.")
    return quota_id, places[0], value


def _limits(call: ApiCall, quota_id: str) -> dict[str, int]:
    """The limits of a quota by place; one limit for all is spelled out."""
    limit = call.project.scenario().quota.get(quota_id, {})
    if isinstance(limit, Mapping):
        return dict(limit)
    return dict.fromkeys(_places(quota_id), int(limit))


def _places(quota_id: str) -> list[str]:
    scopes = {pool.quota_id: pool.scope for pool in pools()}
    zones = list(catalog.zones())
    return zones if scopes.get(quota_id) == "zone" else [*dict.fromkeys(map(region_of, zones))]


ROWS = api_methods(
    QUOTAS, ("quotaPreferences.create", f"POST {_PREFERENCES}", _PERMISSION, _create)
)
