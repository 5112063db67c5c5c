"""Cloud Resource Manager: the project, what the caller may do in it, and who has which role.

https://cloud.google.com/resource-manager/reference/rest/v1/projects/testIamPermissions
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuctl.api.answers import ask, parse_answer
from tpuctl.api.tpu.rest import RestApi

MOST_PERMISSIONS = 100
"""So many permissions can be tested at once."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project by its id, with the number that service accounts are named by."""

    id: str
    number: str
    state: str
    """`ACTIVE`, or what it is on its way to its deletion."""


def read_project(rest: RestApi, project: str) -> Project:
    """The project of that id; raises what `ask` raises."""
    about = f"project {project}"
    found = ask(rest, "GET", f"/v1/projects/{project}", about)
    number = str(found.get("projectNumber", ""))
    return Project(project, number, str(found.get("lifecycleState", "ACTIVE")))


def granted_permissions(rest: RestApi, project: str, wanted: Sequence[str]) -> frozenset[str]:
    """Those of the permissions that the caller has in the project; raises what `ask` raises."""
    path = f"/v1/projects/{project}:testIamPermissions"
    about = f"the permissions in project {project}"
    granted: set[str] = set()
    for start in range(0, len(wanted), MOST_PERMISSIONS):
        part = list(wanted[start : start + MOST_PERMISSIONS])
        granted |= permissions_in(ask(rest, "POST", path, about, {"permissions": part}))
    return frozenset(granted)


def roles_by_member(rest: RestApi, project: str) -> Mapping[str, frozenset[str]]:
    """The roles of each member of the project's policy; raises what `ask` raises."""
    about = f"the policy of project {project}"
    return roles_in(ask(rest, "POST", f"/v1/projects/{project}:getIamPolicy", about, {}))


def permissions_in(answer: Mapping[str, Any]) -> frozenset[str]:
    """The permissions in an answer of any `testIamPermissions`."""
    with parse_answer("permissions"):
        return frozenset(map(str, answer.get("permissions", ())))


def roles_in(policy: Mapping[str, Any]) -> Mapping[str, frozenset[str]]:
    """The roles of each member of a policy, without those that have a condition."""
    roles: dict[str, set[str]] = {}
    with parse_answer("a policy"):
        for binding in policy.get("bindings", ()):
            for member in () if binding.get("condition") else binding.get("members", ()):
                roles.setdefault(str(member), set()).add(str(binding["role"]))
    return {member: frozenset(held) for member, held in roles.items()}
