"""Autoclass: the settings of a bucket that chooses the storage class of its objects itself.

cloud.google.com/storage/docs/autoclass. Every object is written as STANDARD; none moves to a colder
class here, as nobody is billed for it.
"""

from typing import Any

from localsim.rules.objects.bucket_settings.value_types import (
    boolean_value,
    object_value,
    word_value,
)
from localsim.rules.objects.storage_model import Properties, instant, invalid

_TERMINAL_CLASSES = ("NEARLINE", "ARCHIVE")


def checked_autoclass(value: Any, before: Any, now_s: float) -> dict[str, Any] | None:
    """The settings, with the moments at which they last changed."""
    if value is None:
        return None
    given, before = object_value("autoclass", value), before or {}
    enabled = boolean_value(given.get("enabled", False))
    now, was_so = instant(now_s), before.get("enabled") == enabled
    toggled = before.get("toggleTime", now) if was_so else now
    kept: dict[str, Any] = {"enabled": enabled, "toggleTime": toggled}
    if not enabled:
        return kept
    terminal = word_value(given.get("terminalStorageClass") or "NEARLINE", _TERMINAL_CLASSES)
    is_same = terminal == before.get("terminalStorageClass")
    updated = before.get("terminalStorageClassUpdateTime", now) if is_same else now
    return {
        **kept,
        "terminalStorageClass": terminal,
        "terminalStorageClassUpdateTime": updated,
    }


def has_autoclass(settings: Properties) -> bool:
    """Whether a bucket with these settings chooses the class of its objects itself."""
    return (settings.get("autoclass") or {}).get("enabled") is True


def check_autoclass(settings: Properties) -> None:
    """Raise StorageError 400 for settings that Autoclass does not go with."""
    if not has_autoclass(settings):
        return
    if settings.get("storageClass", "STANDARD") != "STANDARD":
        raise invalid("The default storage class of a bucket with Autoclass must be STANDARD.")
    for rule in (settings.get("lifecycle") or {}).get("rule", ()):
        if (
            rule["action"]["type"] == "SetStorageClass"
            or "matchesStorageClass" in rule["condition"]
        ):
            raise invalid(
                "Autoclass does not go with the lifecycle action SetStorageClass, nor with the"
                " condition matchesStorageClass."
            )
