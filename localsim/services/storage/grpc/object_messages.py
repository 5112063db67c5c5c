"""Objects and buckets as messages of google.storage.v2, and what messages say of new objects."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from google.protobuf import descriptor_pool

from localsim.rules.objects.bucket_settings.placement import location_of_settings, location_type
from localsim.rules.objects.properties import FINALIZED_S, OPEN, writable_properties
from localsim.rules.objects.retention import EXPIRATION
from localsim.rules.objects.storage_model import (
    Bucket,
    Hashes,
    NewObject,
    StoredObject,
    check_object_name,
    instant,
    not_implemented,
)
from localsim.services.storage.grpc.grpc_calls import (
    bucket_name,
    conditions,
    full_bucket_name,
    moment,
)
from localsim.services.tpu.proto_messages import Messages, load_types

_TEXTS = {
    "content_type": "contentType",
    "cache_control": "cacheControl",
    "content_disposition": "contentDisposition",
    "content_encoding": "contentEncoding",
    "content_language": "contentLanguage",
}
_OTHERS = {
    "storage_class": "storageClass",
    "temporary_hold": "temporaryHold",
    "event_based_hold": "eventBasedHold",
}
WRITABLE = {
    **_TEXTS,
    **_OTHERS,
    "custom_time": "customTime",
    "metadata": "metadata",
}
"""The fields of an object that a client may set -> their names in the JSON API."""
_ABSENT = ("acl", "kms_key", "contexts", "retention", "customer_encryption")


@cache
def storage_messages() -> Messages:
    """The message classes by name; raises ImportError where the client has none."""
    load_types("google.cloud._storage_v2", "storage")
    return Messages("google.storage.v2", descriptor_pool.Default())


def object_message(stored: StoredObject, paths: Sequence[str] = ()) -> Any:
    """An object, or of it only the fields of a mask."""
    properties = stored.properties
    message = storage_messages()["Object"](
        name=stored.name,
        bucket=full_bucket_name(stored.bucket),
        etag=stored.etag,
        generation=stored.generation,
        metageneration=stored.metageneration,
        size=stored.size_bytes,
        storage_class=properties.get("storageClass", "STANDARD"),
        create_time=moment(stored.created_s),
        update_time=moment(stored.updated_s),
        update_storage_class_time=moment(stored.created_s),
        checksums=checksums_message(stored),
        metadata=properties.get("metadata") or {},
        **{field: properties[name] for field, name in _TEXTS.items() if properties.get(name)},
    )
    if stored.component_count is not None:
        message.component_count = stored.component_count
    if stored.deleted_s is not None:
        message.delete_time.CopyFrom(moment(stored.deleted_s))
    if not properties.get(OPEN):
        message.finalize_time.CopyFrom(moment(properties.get(FINALIZED_S, stored.created_s)))
    message.temporary_hold = bool(properties.get("temporaryHold"))
    if "eventBasedHold" in properties:
        message.event_based_hold = properties["eventBasedHold"]
    for field, name in (("custom_time", "customTime"), ("retention_expire_time", EXPIRATION)):
        if properties.get(name):
            getattr(message, field).FromDatetime(
                datetime.fromisoformat(properties[name]).astimezone(UTC).replace(tzinfo=None)
            )
    return masked_message(message, paths)


def masked_message(message: Any, paths: Sequence[str]) -> Any:
    """The message, or of it only the fields that a mask begins with; `*` is everything."""
    if not paths or "*" in paths:
        return message
    wanted = {path.partition(".")[0] for path in paths}
    for field, _ in message.ListFields():
        if field.name.rstrip("_") not in wanted:
            message.ClearField(field.name)
    return message


def checksums_message(stored: StoredObject) -> Any:
    """The checksums of an object that are known."""
    md5 = base64.b64decode(stored.md5) if stored.md5 else b""
    return storage_messages()["ObjectChecksums"](crc32c=crc32c_number(stored.crc32c), md5_hash=md5)


def crc32c_number(text: str) -> int:
    """A checksum of the JSON API as the number it is in messages."""
    return int.from_bytes(base64.b64decode(text), "big")


def expected_hashes(*given: Any) -> Hashes:
    """The checksums that messages tell, the last one first; they are checked."""
    crc32c = md5 = None
    for checksums in given:
        if checksums.HasField("crc32c"):
            crc32c = base64.b64encode(checksums.crc32c.to_bytes(4, "big")).decode()
        if checksums.md5_hash:
            md5 = base64.b64encode(checksums.md5_hash).decode()
    return Hashes(crc32c, md5)


def set_properties(message: Any, fields: Sequence[str] | None = None) -> dict[str, Any]:
    """What a message sets of an object, as properties of the JSON API; raises StorageError.

    With `fields` these are set, or cleared where the message has nothing for them.
    """
    for name in _ABSENT:
        if message.DESCRIPTOR.fields_by_name[name].is_repeated:
            is_set = bool(getattr(message, name))
        else:
            is_set = name in {field.name for field, _ in message.ListFields()}
        if is_set and name != "acl":
            raise not_implemented(f"The object field {name!r}")
    present = {field.name: value for field, value in message.ListFields()}
    chosen = present.keys() & WRITABLE.keys() if fields is None else fields
    resource: dict[str, Any] = {}
    for name in chosen:
        value = present.get(name)
        if name == "custom_time" and value is not None:
            value = instant(value.seconds + value.nanos / 1e9)
        if name == "metadata":
            value = dict(value or {}) if fields is None or value else None
        resource[WRITABLE[name]] = value
    return writable_properties(resource)


def new_object(spec: Any, *checksums: Any, declared_bytes: int | None = None) -> NewObject:
    """The object that a WriteObjectSpec asks for; raises StorageError."""
    resource = spec.resource
    check_object_name(resource.name)
    return NewObject(
        bucket=bucket_name(resource.bucket),
        name=resource.name,
        properties=set_properties(resource),
        preconditions=conditions(spec),
        expected=expected_hashes(resource.checksums, *checksums),
        declared_bytes=declared_bytes,
    )


def bucket_message(bucket: Bucket, paths: Sequence[str] = ()) -> Any:
    """A bucket, or of it only the fields of a mask."""
    settings = bucket.properties
    location = location_of_settings(bucket.properties)
    message = storage_messages()["Bucket"](
        name=full_bucket_name(bucket.name),
        bucket_id=bucket.name,
        project=f"projects/{bucket.project}",
        etag=bucket.etag,
        metageneration=bucket.metageneration,
        location=location,
        location_type=location_type(bucket.properties),
        storage_class=settings.get("storageClass", "STANDARD"),
        create_time=moment(bucket.created_s),
        update_time=moment(bucket.updated_s),
        labels=settings.get("labels") or {},
        default_event_based_hold=bool(settings.get("defaultEventBasedHold")),
    )
    _set_nested(message, settings)
    return masked_message(message, paths)


def _set_nested(message: Any, settings: Mapping[str, Any]) -> None:
    access = settings.get("iamConfiguration") or {}
    uniform = access.get("uniformBucketLevelAccess") or {}
    message.iam_config.uniform_bucket_level_access.enabled = bool(uniform.get("enabled"))
    message.iam_config.public_access_prevention = access.get("publicAccessPrevention", "inherited")
    if settings.get("versioning"):
        message.versioning.enabled = bool(settings["versioning"].get("enabled"))
    if settings.get("hierarchicalNamespace"):
        message.hierarchical_namespace.enabled = True
    placement = settings.get("customPlacementConfig") or {}
    message.custom_placement_config.data_locations.extend(placement.get("dataLocations") or ())
    policy = settings.get("retentionPolicy")
    if policy:
        message.retention_policy.is_locked = bool(policy.get("isLocked"))
        message.retention_policy.retention_duration.seconds = int(policy["retentionPeriod"])


def bucket_settings(message: Any) -> dict[str, Any]:
    """What a message sets of a new bucket, as a resource of the JSON API."""
    settings: dict[str, Any] = {}
    for field, name in (("location", "location"), ("storage_class", "storageClass")):
        if getattr(message, field):
            settings[name] = getattr(message, field)
    if message.labels:
        settings["labels"] = dict(message.labels)
    if message.iam_config.uniform_bucket_level_access.enabled:
        settings["iamConfiguration"] = {"uniformBucketLevelAccess": {"enabled": True}}
    if message.versioning.enabled:
        settings["versioning"] = {"enabled": True}
    if message.hierarchical_namespace.enabled:
        settings["hierarchicalNamespace"] = {"enabled": True}
    places = list(message.custom_placement_config.data_locations)
    return {**settings, "customPlacementConfig": {"dataLocations": places}} if places else settings
