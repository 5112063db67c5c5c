"""Soft deletion: what is deleted or replaced stays for the days of its bucket's policy.

cloud.google.com/storage/docs/soft-delete. A bucket without a policy has none here: Google gives
every new bucket one of seven days, whose bytes would fill the disk of a rehearsal.
"""

import dataclasses

from localsim.rules.objects.storage_model import (
    Bucket,
    Properties,
    StorageError,
    StoredObject,
    instant,
)

POLICY = "softDeletePolicy"
SOFT_DELETED, HARD_DELETED = "softDeleteTime", "hardDeleteTime"
RESTORE_TOKEN = "restoreToken"  # noqa: S105 (a field of the API)
OF_SOFT_DELETED = (SOFT_DELETED, HARD_DELETED, RESTORE_TOKEN)
"""The fields that only what is soft-deleted has; they are kept among its properties."""


def soft_retention_s(settings: Properties) -> int:
    """How long a bucket with these settings keeps what is deleted; 0: not at all."""
    return int((settings.get(POLICY) or {}).get("retentionDurationSeconds", 0))


def soft_deleted_object(
    stored: StoredObject, *, now_s: float, until_s: float, token: str = ""
) -> StoredObject:
    """The generation as it is kept and shown; `token` tells equal generations apart."""
    times = {SOFT_DELETED: instant(now_s), HARD_DELETED: instant(until_s)}
    shown = times | ({RESTORE_TOKEN: token} if token else {})
    return dataclasses.replace(stored, properties={**stored.properties, **shown})


def soft_deleted_bucket(bucket: Bucket, *, now_s: float, until_s: float) -> Bucket:
    """The bucket as it is kept and shown."""
    times = {SOFT_DELETED: instant(now_s), HARD_DELETED: instant(until_s)}
    return dataclasses.replace(bucket, properties={**bucket.properties, **times})


def restored_properties(properties: Properties) -> dict[str, object]:
    """The properties without the fields that only what is soft-deleted has."""
    return {name: value for name, value in properties.items() if name not in OF_SOFT_DELETED}


def no_policy(code: int = 412, reason: str = "softDeletePolicyNotSet") -> StorageError:
    """A refusal: the bucket has never kept what was deleted."""
    return StorageError(code, reason, "Bucket does not have a soft delete policy.")


def not_soft_deleted() -> StorageError:
    """A refusal with 412: the generation is still there."""
    message = "Object is not soft deleted and is either live or noncurrent."
    return StorageError(412, "objectNotSoftDeleted", message)
