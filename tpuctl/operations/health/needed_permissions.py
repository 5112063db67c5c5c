"""Which permissions the commands need, and the smallest predefined role that has them.

Names are those of Google's reference of IAM permissions; that requests (queued resources) ask for
the permissions of nodes is assumed, since the reference has no row for them.
https://cloud.google.com/iam/docs/roles-permissions/tpu
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_READ = ("tpu.nodes.get", "tpu.nodes.list")
_CREATE = (*_READ, "tpu.nodes.create", "tpu.operations.get")
_DELETE = (*_READ, "tpu.nodes.delete", "tpu.operations.get")
_OBJECTS_READ = ("storage.objects.get", "storage.objects.list")
_OBJECTS = (*_OBJECTS_READ, "storage.objects.create", "storage.objects.delete")


@dataclass(frozen=True, slots=True)
class CommandNeeds:
    """Permissions that some commands need in one place: the project or the bucket."""

    what: str
    """What is done with them, as the name of a line: `permissions: create slices`."""
    commands: tuple[str, ...]
    permissions: tuple[str, ...]
    role: str
    """The smallest predefined role that has them all."""
    is_vital: bool = True
    """Whether the commands cannot work without; else they say less."""

    def missing(self, granted: Iterable[str]) -> list[str]:
        """The permissions that are not among the granted ones."""
        return sorted(set(self.permissions) - set(granted))


IN_PROJECT: Sequence[CommandNeeds] = (
    CommandNeeds(
        "see slices",
        (
            *("node list", "node describe", "node wait", "node workers", "node ssh", "node exec"),
            *("node cp", "node forward", "qr list", "qr describe", "qr wait", "sweep"),
        ),
        _READ,
        "roles/tpu.viewer",
    ),
    CommandNeeds(
        "create slices",
        ("node create", "qr create", "job submit", "run", "serve", "predict"),
        _CREATE,
        "roles/tpu.admin",
    ),
    CommandNeeds(
        "delete slices",
        ("node delete", "qr delete", "job submit", "job delete", "run", "sweep"),
        _DELETE,
        "roles/tpu.admin",
    ),
    CommandNeeds(
        "change slices",
        ("node start", "node stop", "node update", "qr reset"),
        (*_READ, *(f"tpu.nodes.{verb}" for verb in ("start", "stop", "update"))),
        "roles/tpu.admin",
    ),
    CommandNeeds(
        "see quota",
        ("doctor", "job submit"),
        ("serviceusage.services.list", "serviceusage.quotas.get"),
        "roles/serviceusage.serviceUsageViewer",
        is_vital=False,
    ),
    CommandNeeds(
        "see the network",
        ("doctor", "node create", "qr create"),
        tuple(
            f"compute.{each}"
            for each in (
                *("firewalls.list", "networks.get", "projects.get", "regions.get"),
                *("routers.list", "subnetworks.get"),
            )
        ),
        "roles/compute.viewer",
        is_vital=False,
    ),
    CommandNeeds(
        "see time series",
        ("node metrics", "explain"),
        ("monitoring.timeSeries.list",),
        "roles/monitoring.viewer",
        is_vital=False,
    ),
)
IAP_NEEDS = CommandNeeds(
    "reach workers through IAP",
    ("node ssh", "node exec", "node cp", "node forward", "job submit", "run"),
    ("iap.tunnelInstances.accessViaIAP",),
    "roles/iap.tunnelResourceAccessor",
)
"""What the dialer `iap` needs in the project besides."""
ON_BUCKET: Sequence[CommandNeeds] = (
    CommandNeeds(
        "read the bucket",
        ("data list", "data pull", "checkpoint list", "checkpoint pull", "job list", "job logs"),
        _OBJECTS_READ,
        "roles/storage.objectViewer",
    ),
    CommandNeeds(
        "write the bucket",
        ("data push", "data rm", "checkpoint push", "checkpoint prune", "job submit", "run"),
        _OBJECTS,
        "roles/storage.objectUser",
    ),
)
ROLES_THAT_WRITE_OBJECTS = frozenset(
    {"roles/storage.admin", "roles/storage.objectAdmin", "roles/storage.objectUser"}
)
"""Predefined roles that let workers keep logs and checkpoints in a bucket."""
CONVENIENCE_MEMBERS: Mapping[str, str] = {
    "roles/editor": "projectEditor",
    "roles/owner": "projectOwner",
}
"""Basic roles of the project, and the member by which a bucket's policy knows who has them."""
LEGACY_WRITERS = frozenset({"roles/storage.legacyBucketOwner", "roles/storage.legacyBucketWriter"})
