"""The setting `encryption` of a bucket: its default key, and which ways to encrypt it allows.

cloud.google.com/storage/docs/encryption/enforce-encryption-types. A restriction acts at once here;
on Google some minutes may pass.
"""

from collections.abc import Mapping
from typing import Any

from localsim.rules.objects.encryption.kms_keys import check_key_name, check_usable
from localsim.rules.objects.properties import CUSTOMER_ENCRYPTION, KMS_KEY_NAME
from localsim.rules.objects.storage_model import (
    Bucket,
    Properties,
    instant,
    invalid,
    precondition_failed,
)

DEFAULT_KEY = "defaultKmsKeyName"
GOOGLE_MANAGED = "googleManagedEncryptionEnforcementConfig"
CUSTOMER_MANAGED = "customerManagedEncryptionEnforcementConfig"
CUSTOMER_SUPPLIED = "customerSuppliedEncryptionEnforcementConfig"
RESTRICTED = "FullyRestricted"
_MODES = (RESTRICTED, "NotRestricted")


def checked_encryption(value: Any, before: Any, now_s: float) -> dict[str, Any] | None:
    """The setting as it is kept; None where nothing is set. Raises StorageError 400."""
    given = _object("encryption", value or {})
    kept: dict[str, Any] = {}
    if given.get(DEFAULT_KEY):
        kept[DEFAULT_KEY] = check_key_name(given[DEFAULT_KEY])
    for name in (GOOGLE_MANAGED, CUSTOMER_MANAGED, CUSTOMER_SUPPLIED):
        if given.get(name):
            kept[name] = _enforcement(name, given[name], (before or {}).get(name) or {}, now_s)
    if DEFAULT_KEY in kept and _restricts(kept, CUSTOMER_MANAGED, CUSTOMER_SUPPLIED):
        raise invalid(
            "A bucket with a default Cloud KMS key must allow customer-managed or"
            " customer-supplied encryption."
        )
    return kept or None


def default_key(bucket: Bucket) -> str:
    """The name of the bucket's default key; empty without one."""
    name: str = (bucket.properties.get("encryption") or {}).get(DEFAULT_KEY, "")
    return name


def check_default_key(bucket: Bucket) -> None:
    """Raise StorageError where the bucket may not use its default key."""
    name = default_key(bucket)
    if name:
        check_usable(bucket, name)


def check_enforced(bucket: Bucket, properties: Properties) -> None:
    """Raise StorageError 412 where the bucket does not allow a new object with these properties."""
    setting = bucket.properties.get("encryption")
    if not setting:
        return
    kind = GOOGLE_MANAGED
    if CUSTOMER_ENCRYPTION in properties:
        kind = CUSTOMER_SUPPLIED
    elif KMS_KEY_NAME in properties:
        kind = CUSTOMER_MANAGED
    if _restricts(setting, kind):
        raise precondition_failed(
            "Requested encryption type for object is not compliant with the bucket's encryption"
            " enforcement configuration."
        )


def _restricts(setting: Mapping[str, Any], *kinds: str) -> bool:
    return all(setting.get(kind, {}).get("restrictionMode") == RESTRICTED for kind in kinds)


def _enforcement(name: str, value: Any, before: Mapping[str, Any], now_s: float) -> dict[str, Any]:
    """One way's restriction; when it began is shown as long as there is one."""
    mode = _object(name, value).get("restrictionMode")
    if mode not in _MODES:
        raise invalid(f"Invalid value for: {mode} is not a valid value")
    if mode != RESTRICTED:
        return {"restrictionMode": mode}
    if before.get("restrictionMode") == mode:
        return dict(before)
    return {"restrictionMode": mode, "effectiveTime": instant(now_s)}


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise invalid(f"{name} must be an object.")
    return value
