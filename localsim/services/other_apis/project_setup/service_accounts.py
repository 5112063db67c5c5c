"""The part of IAM about service accounts: whether one is there, enabled, and who may act as it.

https://cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from localsim import accounts
from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.scenario.project_checks import DEFAULT_ACCOUNT
from localsim.rules.scenario.roles import ROLES, permissions
from localsim.services.auth import iam
from localsim.services.other_apis.other_api_calls import (
    IAM,
    ApiCall,
    ProjectContext,
    api_methods,
)
from localsim.services.other_apis.project_setup.policy_bindings import (
    bindings_of,
    checked_policy,
    shown_policy,
)

_ID = re.compile(r"[a-z](?:[-a-z0-9]{4,28}[a-z0-9])")
"""What Google takes as the ID of a new account: 6 to 30 characters."""
_PROJECT = "/v1/projects/{project}/serviceAccounts"
ACCOUNT_PATH = f"{_PROJECT}/{{account}}"
_GET, _LIST, _CREATE, _ENABLE, _DISABLE = (
    f"iam.serviceAccounts.{verb}" for verb in ("get", "list", "create", "enable", "disable")
)


def _list_accounts(call: ApiCall) -> dict[str, Any]:
    shown = [_shown(call, email, state) for email, state in account_states(call.project).items()]
    return {"accounts": shown}


async def _create(call: ApiCall) -> dict[str, Any]:
    wanted = call.body.get("accountId", "")
    if not isinstance(wanted, str) or not _ID.fullmatch(wanted):
        raise CloudError(Code.INVALID_ARGUMENT, "Invalid service account id.")
    email = accounts.email(wanted, call.project.id)
    if email in account_states(call.project):
        project = f"projects/{call.project.id}"
        sentence = f"Service account {wanted} already exists within project {project}."
        raise CloudError(Code.ALREADY_EXISTS, sentence)
    await _set_state(call, email, "enabled")
    return _shown(call, email, "enabled")


def _get(call: ApiCall) -> dict[str, Any]:
    email = found_account(call)
    return _shown(call, email, account_states(call.project)[email])


async def _enable(call: ApiCall) -> dict[str, Any]:
    await _set_state(call, found_account(call), "enabled")
    return {}


async def _disable(call: ApiCall) -> dict[str, Any]:
    await _set_state(call, found_account(call), "disabled")
    return {}


def _test_permissions(call: ApiCall) -> dict[str, Any]:
    wanted = call.body.get("permissions", [])
    if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
        raise CloudError(Code.INVALID_ARGUMENT, "permissions must be a list of strings.")
    of_project = iam.granted_permissions(call.account, wanted)
    bound = permissions(_bound_roles(call, found_account(call)))
    granted = [each for each in wanted if each in of_project or each in bound]
    return {"permissions": granted} if granted else {}


def _get_policy(call: ApiCall) -> dict[str, Any]:
    return shown_policy(bindings_of(_roles(call, found_account(call))))


def _set_policy(call: ApiCall) -> dict[str, Any]:
    email = found_account(call)
    before = bindings_of(_roles(call, email))
    after = checked_policy(call.body, before, ROLES)
    call.project.metadata.write_policy(email, after)
    return shown_policy(bindings_of(after))


def _roles(call: ApiCall, email: str) -> Mapping[str, list[str]]:
    """The roles that the account's own policy gives each member."""
    return call.project.metadata.policy(email)


def _bound_roles(call: ApiCall, email: str) -> Iterable[str]:
    """The roles that the account's own policy gives the caller."""
    members = iam.members_of(call.account) if call.account else ()
    return [role for member in members for role in _roles(call, email).get(member, ())]


def account_states(project: ProjectContext) -> dict[str, str]:
    """Email -> state of every account that there is: `enabled` or `disabled`."""
    default = accounts.default_compute_email(project.number)
    known = {default: "enabled"}
    known |= {accounts.email(name, project.id): "enabled" for name in iam.ACCOUNTS}
    for name, state in project.scenario().service_accounts.items():
        email = default if name == DEFAULT_ACCOUNT else _email(project, name)
        known[email] = state
    return {email: state for email, state in known.items() if state != "absent"}


async def _set_state(call: ApiCall, email: str, state: str) -> None:
    is_default = email == accounts.default_compute_email(call.project.number)
    name = DEFAULT_ACCOUNT if is_default else email.partition("@")[0]
    setting = {"service_accounts": {name: state}}
    await call.project.cloud_port.run(lambda cloud: cloud.change_scenario(setting))


def _email(project: ProjectContext, name: str) -> str:
    return name if "@" in name else accounts.email(name, project.id)


def found_account(call: ApiCall) -> str:
    """The e-mail address of the account that the path names, by it or by its number."""
    wanted = call.names["account"]
    for email in account_states(call.project):
        if wanted in (email, unique_id(email)):
            return email
    raise CloudError(Code.NOT_FOUND, f"Unknown service account: {wanted}")


def _shown(call: ApiCall, email: str, state: str) -> dict[str, Any]:
    return {
        "name": f"projects/{call.project.id}/serviceAccounts/{email}",
        "projectId": call.project.id,
        "uniqueId": unique_id(email),
        "email": email,
        "etag": "MDEwMjE5MjA=",
        "oauth2ClientId": unique_id(email),
        **({"disabled": True} if state == "disabled" else {}),
    }


def unique_id(email: str) -> str:
    """The number by which an account can be named too."""
    return str(10**20 + int.from_bytes(hashlib.sha256(email.encode()).digest()[:7]))


ROWS = api_methods(
    IAM,
    ("serviceAccounts.list", f"GET {_PROJECT}", _LIST, _list_accounts),
    ("serviceAccounts.create", f"POST {_PROJECT}", _CREATE, _create),
    ("serviceAccounts.get", f"GET {ACCOUNT_PATH}", _GET, _get),
    ("serviceAccounts.enable", f"POST {ACCOUNT_PATH}:enable", _ENABLE, _enable),
    ("serviceAccounts.disable", f"POST {ACCOUNT_PATH}:disable", _DISABLE, _disable),
    (
        "serviceAccounts.testIamPermissions",
        f"POST {ACCOUNT_PATH}:testIamPermissions",
        "",
        _test_permissions,
    ),
    (
        "serviceAccounts.getIamPolicy",
        f"POST {ACCOUNT_PATH}:getIamPolicy",
        "iam.serviceAccounts.getIamPolicy",
        _get_policy,
    ),
    (
        "serviceAccounts.setIamPolicy",
        f"POST {ACCOUNT_PATH}:setIamPolicy",
        "iam.serviceAccounts.setIamPolicy",
        _set_policy,
    ),
)
