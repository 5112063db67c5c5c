"""The permissions of Google's predefined roles, as far as the simulator asks for them.

Permissions are named as in Google's reference of IAM; that queued resources ask for those of nodes,
as nodes do, is assumed: the reference has no row for them.
"""

from collections.abc import Iterable, Mapping

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
    "storage.bucketOperations.cancel",
    "storage.bucketOperations.get",
    "storage.bucketOperations.list",
    "storage.buckets.enableObjectRetention",
    "storage.buckets.getIamPolicy",
    "storage.buckets.getIpFilter",
    "storage.buckets.restore",
    "storage.buckets.setIamPolicy",
    "storage.buckets.setIpFilter",
    *(f"storage.bucketOperations.{verb}" for verb in ("cancel", "get", "list")),
    *(f"storage.folders.{verb}" for verb in ("create", "delete", "get", "list", "rename")),
    *(f"storage.managedFolders.{verb}" for verb in ("create", "delete", "get", "list")),
    "storage.managedFolders.getIamPolicy",
    "storage.managedFolders.setIamPolicy",
    "storage.multipartUploads.abort",
    "storage.multipartUploads.create",
    "storage.multipartUploads.list",
    "storage.multipartUploads.listParts",
    "storage.objects.getIamPolicy",
    "storage.objects.move",
    "storage.objects.overrideUnlockedRetention",
    "storage.objects.restore",
    "storage.objects.setRetention",
    "storage.objects.setIamPolicy",
}
_HMAC_KEYS = frozenset(
    f"storage.hmacKeys.{verb}" for verb in ("create", "delete", "get", "list", "update")
)
_COMPUTE_READ = frozenset(
    f"compute.{each}"
    for each in (
        *("projects.get", "regions.get", "globalOperations.get", "regionOperations.get"),
        *("firewalls.get", "firewalls.list", "networks.get", "networks.list"),
        *("routers.get", "routers.list", "subnetworks.get"),
    )
)
_FIREWALL_CHANGE = frozenset({"compute.firewalls.create", "compute.firewalls.delete"})
_NETWORK_CHANGE = frozenset(
    f"compute.{each}"
    for each in (
        *("networks.create", "networks.updatePolicy", "routers.create", "routers.update"),
        "subnetworks.setPrivateIpGoogleAccess",
    )
)
_OS_LOGIN = frozenset({"compute.instances.osLogin"})
_COMPUTE = (
    _COMPUTE_READ
    | _FIREWALL_CHANGE
    | _NETWORK_CHANGE
    | _OS_LOGIN
    | {"compute.projects.setCommonInstanceMetadata", "compute.instances.osAdminLogin"}
)
_SERVICES_READ = frozenset({"serviceusage.services.list", "serviceusage.quotas.get"})
_SERVICES_USE = frozenset({"serviceusage.services.use"})
_ACCOUNTS_READ = frozenset({"iam.serviceAccounts.get", "iam.serviceAccounts.list"})
_ACCOUNTS_USE = frozenset({"iam.serviceAccounts.actAs"})
_ACCOUNTS_CHANGE = frozenset(
    f"iam.serviceAccounts.{verb}" for verb in ("create", "disable", "enable")
)
_STORAGE_POLICIES = frozenset(each for each in _STORAGE if each.endswith("etIamPolicy"))
_OBJECTS = frozenset(
    each
    for each in _STORAGE - _STORAGE_POLICIES
    if not each.startswith(("storage.buckets.", "storage.bucketOperations."))
)
_OBJECT_POLICIES = frozenset(
    f"storage.{kind}.{verb}IamPolicy"
    for kind in ("managedFolders", "objects")
    for verb in ("get", "set")
)
_OBJECTS_READ = frozenset(
    f"storage.{kind}.{verb}"
    for kind in ("folders", "managedFolders", "objects")
    for verb in ("get", "list")
)
_UPLOADS = frozenset(
    {
        "storage.multipartUploads.abort",
        "storage.multipartUploads.create",
        "storage.multipartUploads.listParts",
        "storage.objects.create",
    }
)
_OF_BUCKET_READERS = frozenset(
    {"storage.buckets.get", "storage.objects.list", "storage.multipartUploads.list"}
)
_OF_BUCKET_WRITERS = _OF_BUCKET_READERS | _UPLOADS | {"storage.objects.delete"}
_ACCOUNT_KEYS = frozenset(
    f"iam.serviceAccountKeys.{verb}" for verb in ("create", "delete", "get", "list")
)
_CREDENTIALS = frozenset(
    f"iam.serviceAccounts.{verb}" for verb in ("getAccessToken", "signBlob", "signJwt")
)
_RETENTION = {"storage.objects.overrideUnlockedRetention", "storage.objects.setRetention"}
_POLICIES = frozenset(
    f"resourcemanager.projects.{verb}" for verb in ("get", "getIamPolicy", "setIamPolicy")
)
_QUOTA_CHANGE = frozenset({"cloudquotas.quotas.get", "cloudquotas.quotas.update"})
_SECRETS_READ = frozenset(
    f"secretmanager.{kind}.{verb}" for kind in ("secrets", "versions") for verb in ("get", "list")
)
_SECRETS_CHANGE = frozenset(
    {"secretmanager.secrets.create", "secretmanager.secrets.delete", "secretmanager.versions.add"}
)
_SECRETS_ACCESS = frozenset({"secretmanager.versions.access"})
_LOGS_WRITE = frozenset({"logging.logEntries.create"})
_LOGS_READ = frozenset({"logging.logEntries.list"})
_METRICS_READ = frozenset(
    f"monitoring.{kind}.list"
    for kind in ("metricDescriptors", "monitoredResourceDescriptors", "timeSeries")
)

_PREDEFINED: Mapping[str, frozenset[str]] = {
    "roles/tpu.admin": _PROJECT_READ | _TPU_READ | _TPU_CHANGE,
    "roles/tpu.viewer": _PROJECT_READ | _TPU_READ,
    "roles/storage.admin": _STORAGE,
    "roles/secretmanager.admin": _SECRETS_READ | _SECRETS_CHANGE | _SECRETS_ACCESS,
    "roles/secretmanager.secretAccessor": _SECRETS_ACCESS,
    "roles/logging.logWriter": _LOGS_WRITE,
    "roles/logging.viewer": _LOGS_READ,
    "roles/monitoring.viewer": _METRICS_READ,
    "roles/storage.hmacKeyAdmin": _HMAC_KEYS,
    "roles/storage.objectAdmin": _OBJECTS | _OBJECT_POLICIES,
    "roles/storage.folderAdmin": _OBJECTS | _OBJECT_POLICIES,
    "roles/storage.objectCreator": _UPLOADS,
    "roles/storage.objectUser": _OBJECTS - _RETENTION,
    "roles/storage.objectViewer": _OBJECTS_READ,
    "roles/storage.legacyBucketReader": _OF_BUCKET_READERS,
    "roles/storage.legacyBucketWriter": _OF_BUCKET_WRITERS,
    "roles/storage.legacyBucketOwner": _OF_BUCKET_WRITERS
    | {
        "storage.buckets.getIamPolicy",
        "storage.buckets.setIamPolicy",
        "storage.buckets.update",
    },
    "roles/storage.legacyObjectReader": frozenset({"storage.objects.get"}),
    "roles/storage.legacyObjectOwner": _OBJECT_POLICIES
    | {"storage.objects.get", "storage.objects.update"},
    "roles/browser": frozenset({"resourcemanager.projects.get"}),
    "roles/serviceusage.serviceUsageViewer": _PROJECT_READ | _SERVICES_READ,
    "roles/serviceusage.serviceUsageConsumer": _PROJECT_READ | _SERVICES_READ | _SERVICES_USE,
    "roles/serviceusage.serviceUsageAdmin": _PROJECT_READ
    | _SERVICES_READ
    | _SERVICES_USE
    | {"serviceusage.services.enable"},
    "roles/compute.networkViewer": _COMPUTE_READ - {"compute.projects.get"},
    "roles/compute.viewer": _COMPUTE_READ,
    "roles/compute.securityAdmin": _COMPUTE_READ | _FIREWALL_CHANGE,
    "roles/compute.networkAdmin": _COMPUTE_READ | _NETWORK_CHANGE,
    "roles/compute.osLogin": _OS_LOGIN | {"compute.projects.get"},
    "roles/compute.osAdminLogin": _OS_LOGIN
    | {"compute.projects.get", "compute.instances.osAdminLogin"},
    "roles/iap.tunnelResourceAccessor": frozenset({"iap.tunnelInstances.accessViaIAP"}),
    "roles/iam.serviceAccountUser": _ACCOUNTS_READ | _ACCOUNTS_USE,
    "roles/iam.serviceAccountAdmin": _ACCOUNTS_READ
    | _ACCOUNTS_CHANGE
    | {"iam.serviceAccounts.getIamPolicy", "iam.serviceAccounts.setIamPolicy"},
    "roles/iam.serviceAccountKeyAdmin": _ACCOUNTS_READ | _ACCOUNT_KEYS,
    "roles/iam.serviceAccountTokenCreator": _ACCOUNTS_READ | _CREDENTIALS,
    "roles/billing.projectManager": frozenset({"resourcemanager.projects.createBillingAssignment"}),
    "roles/cloudquotas.admin": _QUOTA_CHANGE,
    "roles/resourcemanager.projectIamAdmin": _POLICIES,
    # An editor sets no policies and reads no secrets.
    "roles/editor": _PROJECT_READ
    | _SERVICES_READ
    | _SERVICES_USE
    | _ACCOUNTS_READ
    | _ACCOUNTS_USE
    | _ACCOUNTS_CHANGE
    | _QUOTA_CHANGE
    | {"serviceusage.services.enable", "resourcemanager.projects.getIamPolicy"}
    | _TPU_READ
    | _TPU_CHANGE
    | _HMAC_KEYS
    | (_STORAGE - _STORAGE_POLICIES)
    | _COMPUTE
    | _SECRETS_READ
    | _SECRETS_CHANGE
    | _LOGS_WRITE
    | _LOGS_READ
    | _METRICS_READ,
}
OWNER = "roles/owner"
"""Has every permission."""
POLICY_ADMIN = "roles/resourcemanager.projectIamAdmin"
ROLES: Mapping[str, frozenset[str]] = {
    **_PREDEFINED,
    OWNER: frozenset[str]().union(*_PREDEFINED.values()),
}
EDITOR = "roles/editor"
"""What the Compute Engine default account has in most projects."""

_NODES, _OPERATIONS = "tpu.nodes", "tpu.operations"
TPU_METHODS: Mapping[str, str] = {
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
"""Method of the Cloud TPU API -> the permission that it asks for."""


def permissions(roles: Iterable[str]) -> frozenset[str]:
    """The permissions that the roles hold together."""
    return frozenset[str]().union(*(ROLES[role] for role in roles))
