"""Checks of the types of settings: each returns the value, or raises StorageError 400."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from localsim.rules.objects.storage_model import invalid


def object_value(name: str, value: Any) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, Mapping):
        raise invalid(f"{name} must be an object.")
    return value


def list_value(name: str, value: Any) -> list[Any]:
    """A JSON array."""
    if not isinstance(value, list):
        raise invalid(f"{name} must be a list.")
    return value


def text_list(name: str, value: Any) -> list[str]:
    """A JSON array of strings."""
    if not all(isinstance(item, str) for item in list_value(name, value)):
        raise invalid(f"{name} must be a list of strings.")
    return list(value)


def text_value(name: str, value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise invalid(f"{name} must be a string.")
    return value


def boolean_value(value: Any) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise invalid(f"Invalid value for TYPE_BOOL field: {value!r}")
    return value


def integer_value(value: Any) -> int:
    """An int64, which JSON may write as a string."""
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,18}", str(value)):
        raise invalid(f"Parse Error: Invalid value for TYPE_INT64 field: '{value}'.")
    return int(value)


def word_value(value: Any, words: Collection[str]) -> str:
    """One of the words of an enumeration."""
    if not isinstance(value, str) or value not in words:
        raise invalid(f"Invalid value for: {value} is not a valid value")
    return value
