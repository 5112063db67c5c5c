"""The part of Cloud Resource Manager that clients use: the project, and permissions on it."""

from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.services.auth import iam
from localsim.services.other_apis.other_api_calls import RESOURCE_MANAGER, ApiCall, api_methods

_PROJECTS_GET = "resourcemanager.projects.get"
_CREATED = "2024-01-01T00:00:00.000Z"
MOST_PERMISSIONS = 100


def _project_v1(call: ApiCall) -> dict[str, Any]:
    project = call.project
    return {
        "projectNumber": str(project.number),
        "projectId": project.id,
        "lifecycleState": "ACTIVE",
        "name": project.id,
        "createTime": _CREATED,
    }


def _project_v3(call: ApiCall) -> dict[str, Any]:
    project = call.project
    return {
        "name": f"projects/{project.number}",
        "projectId": project.id,
        "state": "ACTIVE",
        "displayName": project.id,
        "createTime": _CREATED,
    }


def _test_permissions(call: ApiCall) -> dict[str, Any]:
    wanted = call.body.get("permissions", [])
    if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
        raise CloudError(Code.INVALID_ARGUMENT, "permissions must be a list of strings.")
    if len(wanted) > MOST_PERMISSIONS:
        sentence = f"At most {MOST_PERMISSIONS} permissions can be tested at once."
        raise CloudError(Code.INVALID_ARGUMENT, sentence)
    granted = iam.granted_permissions(call.account, wanted)
    return {"permissions": granted} if granted else {}


ROWS = api_methods(
    RESOURCE_MANAGER,
    ("projects.get", "GET /v1/projects/{project}", _PROJECTS_GET, _project_v1),
    ("projects.get", "GET /v3/projects/{project}", _PROJECTS_GET, _project_v3),
    (
        "projects.testIamPermissions",
        "POST /{version}/projects/{project}:testIamPermissions",
        "",
        _test_permissions,
    ),
)
