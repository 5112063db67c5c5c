"""The policy of the project: which roles its members have.

It is the scenario's: `member_roles`, and `worker_roles` for Compute Engine's default account.
https://cloud.google.com/resource-manager/reference/rest/v1/projects/setIamPolicy
"""

from collections.abc import Iterable, Mapping
from typing import Any

from localsim import accounts
from localsim.rules.scenario.project_checks import EVERYBODY
from localsim.rules.scenario.roles import OWNER, ROLES
from localsim.services.auth import iam
from localsim.services.other_apis.other_api_calls import RESOURCE_MANAGER, ApiCall, api_methods
from localsim.services.other_apis.project_setup.policy_bindings import (
    bindings_of,
    checked_policy,
    shown_policy,
)

_GET, _SET = (f"resourcemanager.projects.{verb}IamPolicy" for verb in ("get", "set"))
_PROJECT = "/{version}/projects/{project}"


def _get_policy(call: ApiCall) -> dict[str, Any]:
    return shown_policy(bindings_of(_roles(call)))


async def _set_policy(call: ApiCall) -> dict[str, Any]:
    before = _roles(call)
    after = checked_policy(call.body, bindings_of(before), ROLES)
    named = _named(call)
    changed: dict[str, Any] = {
        member: list(after.get(member, ())) or None
        for member in {*before, *after} - {*named, _worker(call)}
    }
    changed[EVERYBODY] = list(after.get(EVERYBODY, ()))
    setting = {"member_roles": changed, "worker_roles": list(after.get(_worker(call), ()))}
    await call.project.cloud_port.run(lambda cloud: cloud.change_scenario(setting))
    return shown_policy(bindings_of(_roles(call)))


def _roles(call: ApiCall) -> Mapping[str, Iterable[str]]:
    """The roles of each member of the policy."""
    scenario = call.project.scenario()
    everybody = scenario.member_roles.get(EVERYBODY, (OWNER,))
    held = {**_named(call), **scenario.member_roles, EVERYBODY: everybody}
    return {**held, _worker(call): scenario.worker_roles}


def _named(call: ApiCall) -> Mapping[str, Iterable[str]]:
    """The roles of the accounts that have a key, which no policy changes."""
    return {
        f"serviceAccount:{accounts.email(name, call.project.id)}": roles
        for name, roles in iam.ACCOUNTS.items()
    }


def _worker(call: ApiCall) -> str:
    return f"serviceAccount:{accounts.default_compute_email(call.project.number)}"


ROWS = api_methods(
    RESOURCE_MANAGER,
    ("projects.getIamPolicy", f"POST {_PROJECT}:getIamPolicy", _GET, _get_policy),
    ("projects.setIamPolicy", f"POST {_PROJECT}:setIamPolicy", _SET, _set_policy),
)
