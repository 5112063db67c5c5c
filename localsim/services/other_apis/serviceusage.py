"""The part of Service Usage for enabled APIs and Cloud TPU's quota.

Google shows how much is used in Cloud Monitoring; here `usage` stands beside each limit.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from localsim.rules.model.cloud_errors import CloudError, Code, ErrorInfo
from localsim.rules.scenario.google_apis import TITLES, TPU
from localsim.services.other_apis.other_api_calls import SERVICE_USAGE, ApiCall, api_methods

DONE = "noop.DONE_OPERATION"
TPU_QUOTA_SUFFIX = "ForTPUAPI"
UNLIMITED = -1
MOST_SERVICES = 20
_PROJECT = "/{version}/projects/{project}"
_SERVICE = f"{_PROJECT}/services/{{service}}"
_GET, _LIST, _ENABLE = (f"serviceusage.services.{verb}" for verb in ("get", "list", "enable"))
_QUOTA = "serviceusage.quotas.get"


def _get(call: ApiCall) -> dict[str, Any]:
    return _service(call, _known([call.names["service"]])[0], _closed(call))


def _list(call: ApiCall) -> dict[str, Any]:
    closed, wanted = _closed(call), call.query.get("filter", "")
    services = [_service(call, name, closed) for name in TITLES]
    return {"services": [one for one in services if wanted in ("", f"state:{one['state']}")]}


async def _enable(call: ApiCall) -> dict[str, Any]:
    (name,) = _known([call.names["service"]])
    await _open(call, [name])
    return _done("EnableServiceResponse", {"service": _service(call, name)})


async def _batch_enable(call: ApiCall) -> dict[str, Any]:
    asked = call.body.get("serviceIds", [])
    if not isinstance(asked, list) or not 0 < len(asked) <= MOST_SERVICES:
        raise CloudError(Code.INVALID_ARGUMENT, "serviceIds must name 1 to 20 services.")
    names = _known(map(str, asked))
    await _open(call, names)
    services = [_service(call, name) for name in names]
    return _done("BatchEnableServicesResponse", {"services": services})


def _operation(call: ApiCall) -> dict[str, Any]:
    name = call.names["operation"]
    if name != DONE:
        raise CloudError(Code.NOT_FOUND, f"Operation 'operations/{name}' was not found")
    return _done("EnableServiceResponse", {})


async def _quotas(call: ApiCall) -> dict[str, Any]:
    if _known([call.names["service"]]) != [TPU]:
        return {}
    quotas = await call.project.cloud_port.run(lambda cloud: cloud.quotas())
    metrics: dict[str, list[Any]] = {}
    for quota in quotas:
        if quota.quota_id.endswith(TPU_QUOTA_SUFFIX):
            metrics.setdefault(quota.quota_id, []).append(quota)
    return {"metrics": [_metric(call, name, rows) for name, rows in metrics.items()]}


def _metric(call: ApiCall, quota_id: str, rows: Sequence[Any]) -> dict[str, Any]:
    metric = f"{TPU}/{quota_id}"
    parent = f"projects/{call.project.number}/services/{TPU}/consumerQuotaMetrics"
    name = f"{parent}/{quote(metric, safe='')}"
    place = "zone" if any(row.zone for row in rows) else "region"
    limit = {
        "name": f"{name}/limits/{quote(f'/project/{place}', safe='')}",
        "metric": metric,
        "unit": f"1/{{project}}/{{{place}}}",
        "quotaBuckets": [_bucket(row) for row in rows],
    }
    return {
        "name": name,
        "metric": metric,
        "displayName": quota_id,
        "unit": "1",
        "consumerQuotaLimits": [limit],
    }


def _bucket(row: Any) -> dict[str, Any]:
    limit = str(UNLIMITED if row.limit is None else row.limit)
    return {
        "effectiveLimit": limit,
        "defaultLimit": limit,
        "dimensions": {"zone": row.zone} if row.zone else {"region": row.region},
        "usage": str(row.usage),
    }


def _closed(call: ApiCall) -> frozenset[str]:
    """The services that are not enabled."""
    scenario = call.project.scenario()
    closed = frozenset(scenario.disabled_apis)
    return closed if scenario.tpu_api == "enabled" else closed | {TPU}


async def _open(call: ApiCall, names: Sequence[str]) -> None:
    if _closed(call) & set(names):
        await call.project.cloud_port.run(lambda cloud: cloud.enable_apis(names))


def _service(call: ApiCall, name: str, closed: frozenset[str] = frozenset()) -> dict[str, Any]:
    parent = f"projects/{call.project.number}"
    return {
        "name": f"{parent}/services/{name}",
        "parent": parent,
        "config": {"name": name, "title": TITLES[name]},
        "state": "DISABLED" if name in closed else "ENABLED",
    }


def _known(names: Iterable[str]) -> list[str]:
    """Check that the services exist and return them; raises CloudError."""
    services = list(names)
    for name in services:
        if name not in TITLES:
            raise CloudError(
                Code.PERMISSION_DENIED,
                f"Not found or permission denied for service(s): {name}.",
                ErrorInfo(
                    "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED",
                    SERVICE_USAGE,
                    {"services": name},
                ),
            )
    return services


def _done(kind: str, response: Mapping[str, Any]) -> dict[str, Any]:
    """The finished operation that Service Usage answers at once."""
    url = f"type.googleapis.com/google.api.serviceusage.v1.{kind}"
    return {"name": f"operations/{DONE}", "done": True, "response": {"@type": url, **response}}


ROWS = api_methods(
    SERVICE_USAGE,
    ("services.get", f"GET {_SERVICE}", _GET, _get),
    ("services.list", f"GET {_PROJECT}/services", _LIST, _list),
    ("services.enable", f"POST {_SERVICE}:enable", _ENABLE, _enable),
    (
        "services.batchEnable",
        f"POST {_PROJECT}/services:batchEnable",
        _ENABLE,
        _batch_enable,
    ),
    ("operations.get", "GET /{version}/operations/{operation}", "", _operation),
    (
        "consumerQuotaMetrics.list",
        f"GET {_SERVICE.replace('{version}', 'v1beta1')}/consumerQuotaMetrics",
        _QUOTA,
        _quotas,
    ),
)
