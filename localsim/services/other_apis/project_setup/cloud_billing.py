"""The part of Cloud Billing that says whether the project has an account, and that links one.

https://cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo
"""

from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.services.other_apis.other_api_calls import BILLING, ApiCall, api_methods

ACCOUNT = "billingAccounts/00AA00-00BB00-00CC00"
"""The one billing account that there is; it is open."""
_INFO = "/v1/projects/{project}/billingInfo"


def _get_info(call: ApiCall) -> dict[str, Any]:
    return _info(call, is_enabled=call.project.scenario().billing == "enabled")


async def _update_info(call: ApiCall) -> dict[str, Any]:
    wanted = call.body.get("billingAccountName", "")
    if wanted not in ("", ACCOUNT):
        raise CloudError(Code.PERMISSION_DENIED, "The caller does not have permission")
    setting = {"billing": "enabled" if wanted else "disabled"}
    await call.project.cloud_port.run(lambda cloud: cloud.change_scenario(setting))
    return _info(call, is_enabled=bool(wanted))


def _info(call: ApiCall, *, is_enabled: bool) -> dict[str, Any]:
    linked = {"billingAccountName": ACCOUNT, "billingEnabled": True} if is_enabled else {}
    name = f"projects/{call.project.id}/billingInfo"
    return {"name": name, "projectId": call.project.id, **linked}


def _list_accounts(_call: ApiCall) -> dict[str, Any]:
    account = {"name": ACCOUNT, "open": True, "displayName": "local", "masterBillingAccount": ""}
    return {"billingAccounts": [account]}


ROWS = api_methods(
    BILLING,
    ("projects.getBillingInfo", f"GET {_INFO}", "resourcemanager.projects.get", _get_info),
    (
        "projects.updateBillingInfo",
        f"PUT {_INFO}",
        "resourcemanager.projects.createBillingAssignment",
        _update_info,
    ),
    ("billingAccounts.list", "GET /v1/billingAccounts", "", _list_accounts),
)
