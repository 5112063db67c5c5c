"""Who may do what: service accounts, their roles, and the permission each method asks for.

Permissions are named as in Google's reference of IAM; that queued resources ask for those of nodes,
as nodes do, is assumed: the reference has no row for them.
"""

from collections.abc import Iterable, Mapping, Sequence

from localsim.cloud.errors import CloudError, Code, ErrorInfo

DOMAIN = "googleapis.com"
TPU_SERVICE = "tpu.googleapis.com"

_PROJECT_READ = frozenset({"resourcemanager.projects.get", "serviceusage.services.get"})
_TPU_READ = frozenset(
    f"tpu.{kind}.{verb}"
    for kind in ("acceleratortypes", "locations", "nodes", "operations", "runtimeversions")
    for verb in ("get", "list")
)
_TPU_CHANGE = frozenset(
    f"tpu.nodes.{verb}"
    for verb in (
        "create",
        "delete",
        "performMaintenance",
        "simulateMaintenanceEvent",
        "start",
        "stop",
        "update",
    )
) | {"tpu.operations.cancel", "tpu.operations.delete"}
_STORAGE = frozenset(
    f"storage.{kind}.{verb}"
    for kind in ("buckets", "objects")
    for verb in ("create", "delete", "get", "list", "update")
) | {
    "storage.buckets.getIamPolicy",
    "storage.buckets.setIamPolicy",
    "storage.managedFolders.list",
    "storage.multipartUploads.abort",
    "storage.multipartUploads.create",
    "storage.multipartUploads.list",
    "storage.multipartUploads.listParts",
    "storage.objects.move",
}

ROLES: Mapping[str, frozenset[str]] = {
    "roles/tpu.admin": _PROJECT_READ | _TPU_READ | _TPU_CHANGE,
    "roles/tpu.viewer": _PROJECT_READ | _TPU_READ,
    "roles/storage.admin": _STORAGE,
}
ACCOUNTS: Mapping[str, Sequence[str]] = {
    "admin": ("roles/tpu.admin", "roles/storage.admin"),
    "viewer": ("roles/tpu.viewer",),
    "nobody": (),
}
"""Service accounts that have a key, and their roles in the project."""

_NODES, _OPERATIONS = "tpu.nodes", "tpu.operations"
METHODS: Mapping[str, str] = {
    "ListNodes": f"{_NODES}.list",
    "GetNode": f"{_NODES}.get",
    "CreateNode": f"{_NODES}.create",
    "DeleteNode": f"{_NODES}.delete",
    "StopNode": f"{_NODES}.stop",
    "StartNode": f"{_NODES}.start",
    "UpdateNode": f"{_NODES}.update",
    "ListQueuedResources": f"{_NODES}.list",
    "GetQueuedResource": f"{_NODES}.get",
    "CreateQueuedResource": f"{_NODES}.create",
    "DeleteQueuedResource": f"{_NODES}.delete",
    "ResetQueuedResource": f"{_NODES}.update",
    "GetGuestAttributes": f"{_NODES}.get",
    "PerformMaintenance": f"{_NODES}.performMaintenance",
    "PerformMaintenanceQueuedResource": f"{_NODES}.performMaintenance",
    "SimulateMaintenanceEvent": f"{_NODES}.simulateMaintenanceEvent",
    "ListReservations": f"{_NODES}.list",
    "GenerateServiceIdentity": f"{_NODES}.create",
    "ListAcceleratorTypes": "tpu.acceleratortypes.list",
    "GetAcceleratorType": "tpu.acceleratortypes.get",
    "ListRuntimeVersions": "tpu.runtimeversions.list",
    "GetRuntimeVersion": "tpu.runtimeversions.get",
    "ListLocations": "tpu.locations.list",
    "GetLocation": "tpu.locations.get",
    "ListOperations": f"{_OPERATIONS}.list",
    "GetOperation": f"{_OPERATIONS}.get",
    "CancelOperation": f"{_OPERATIONS}.cancel",
    "DeleteOperation": f"{_OPERATIONS}.delete",
}
"""What a method of the Cloud TPU API asks for."""


def permissions(account: str) -> frozenset[str]:
    """Everything an account may do in the project."""
    return frozenset[str]().union(*(ROLES[role] for role in ACCOUNTS.get(account, ())))


def granted(account: str | None, wanted: Iterable[str]) -> list[str]:
    """Which of the wanted permissions an account has; None, who needs no token, has all."""
    held = None if account is None else permissions(account)
    return [each for each in wanted if held is None or each in held]


def denied(permission: str, resource: str, service: str = TPU_SERVICE) -> CloudError:
    """PERMISSION_DENIED, as the permission's own service words it; `resource` is a path."""
    return CloudError(
        Code.PERMISSION_DENIED,
        f"Permission '{permission}' denied on resource '//{service}/{resource}' "
        "(or it may not exist).",
        ErrorInfo(
            "IAM_PERMISSION_DENIED", DOMAIN, {"permission": permission, "resource": resource}
        ),
    )
