"""The notification configurations of buckets: kept and shown; nothing is ever published.

Fields and values: cloud.google.com/storage/docs/json_api/v1/notifications. The words of the refusal
of a topic are the JSON API's as an issue of a public client records them, the others are assumed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localsim.rules.objects.buckets.bucket_store import Buckets
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.storage_model import StorageError, invalid

MOST_CONFIGS = 100
"""How many a bucket may have: cloud.google.com/storage/quotas#notifications."""
MOST_ATTRIBUTES = 5
_TOPIC = re.compile(r"//pubsub\.googleapis\.com/projects/[^/]+/topics/[^/]+")
_FORMATS = ("JSON_API_V1", "NONE")
_EVENTS = ("OBJECT_FINALIZE", "OBJECT_METADATA_UPDATE", "OBJECT_DELETE", "OBJECT_ARCHIVE")


@dataclass(frozen=True, slots=True)
class NotificationConfig:
    """A configuration as stored; `settings` has the fields that a client may write."""

    bucket: str
    id: int
    settings: Mapping[str, Any]


class NotificationConfigs:
    """The configurations of all buckets; an id never comes again within its bucket."""

    def __init__(self, database: ObjectDatabase, buckets: Buckets) -> None:
        self._database = database
        self._buckets = buckets

    def insert(self, bucket: str, resource: Mapping[str, Any]) -> NotificationConfig:
        """Keep a new configuration; raises StorageError."""
        settings = checked_settings(resource)
        with self._database.change():
            if len(self.list(bucket)) >= MOST_CONFIGS:
                raise invalid(f"A bucket has at most {MOST_CONFIGS} notification configurations.")
            query = "SELECT coalesce(max(id), 0) + 1 FROM storage_notifications WHERE bucket = ?"
            ((number,),) = self._database.execute(query, bucket).fetchall()
            statement = "INSERT INTO storage_notifications VALUES (?, ?, ?)"
            self._database.execute(statement, bucket, number, json.dumps(settings))
        return NotificationConfig(bucket, number, settings)

    def get(self, bucket: str, notification: str) -> NotificationConfig:
        """The configuration of that id; raises 404."""
        for config in self.list(bucket):
            if str(config.id) == notification:
                return config
        raise StorageError(404, "notFound", f"No such notification config: {notification}")

    def list(self, bucket: str) -> list[NotificationConfig]:
        """The configurations of a bucket in the order in which they were made; raises 404."""
        self._buckets.get(bucket)
        query = (
            "SELECT bucket, id, settings FROM storage_notifications"
            " WHERE bucket = ? AND settings IS NOT NULL ORDER BY id"
        )
        rows = self._database.execute(query, bucket)
        return [NotificationConfig(name, number, json.loads(text)) for name, number, text in rows]

    def delete(self, bucket: str, notification: str) -> None:
        """Forget a configuration, but for its id; raises 404."""
        with self._database.change():
            config = self.get(bucket, notification)
            statement = (
                "UPDATE storage_notifications SET settings = NULL WHERE bucket = ? AND id = ?"
            )
            self._database.execute(statement, bucket, config.id)


def checked_settings(resource: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that a client may write; raises StorageError 400."""
    topic, payload = resource.get("topic"), resource.get("payload_format")
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise invalid(
            "Invalid Google Cloud Pub/Sub topic. It should look like"
            " '//pubsub.googleapis.com/projects/*/topics/*.'"
        )
    prefix = resource.get("object_name_prefix") or None
    if not isinstance(prefix, str | None):
        raise invalid("object_name_prefix must be a string.")
    settings = {
        "topic": topic,
        "event_types": _checked_events(resource.get("event_types")),
        "custom_attributes": _checked_attributes(resource.get("custom_attributes")),
        "object_name_prefix": prefix,
        "payload_format": _one_of(_FORMATS, payload),
    }
    return {name: value for name, value in settings.items() if value}


def _checked_events(value: Any) -> list[str]:
    if value is not None and not isinstance(value, list):
        raise invalid("event_types must be a list.")
    return [_one_of(_EVENTS, event) for event in value or ()]


def _checked_attributes(value: Any) -> dict[str, str]:
    if value is not None and not isinstance(value, Mapping):
        raise invalid("custom_attributes must be a map of strings.")
    attributes = dict(value or {})
    if not all(isinstance(text, str) for text in attributes.values()):
        raise invalid("custom_attributes must be a map of strings.")
    if len(attributes) > MOST_ATTRIBUTES:
        raise invalid(f"A notification config has at most {MOST_ATTRIBUTES} custom attributes.")
    return attributes


def _one_of(names: tuple[str, ...], value: Any) -> str:
    if not isinstance(value, str) or value not in names:
        raise invalid(f"Invalid value for: {value} is not a valid value")
    return value
