"""Checks the file of a generation; a mistake in it is named with file and key."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from tpuctl.catalog.records import AcceleratorType, Calibration, Chip, ListPrice, QuotaNaming

Types = type | tuple[type, ...]
_NONE = type(None)
_KEYS: Mapping[str, Types] = {
    "announced": str,
    "marketing": str,
    "type_prefix": str,
    "config_enum": (str, _NONE),
    "api_creatable": bool,
    "chip": dict,
    "types": list,
    "zones": dict,
    "runtime_versions": list,
    "default_runtime_version": (str, _NONE),
    "prices": list,
    "multislice": bool,
    "flex_start": bool,
    "ring_length": (int, _NONE),
    "devices_per_chip": int,
    "duty_cycle_per": str,
    "quota": (dict, _NONE),
    "calibration": dict,
    "pci_id": str,
    "pci_subsystem_id": str,
    "device_node": str,
    "sources": dict,
}
_CHOICES = {
    "duty_cycle_per": ("chip", "device"),
    "quota.unit": ("chips", "cores"),
    "quota.scope": ("zone", "region"),
}


def check(name: str, document: object) -> None:
    """Raises ValueError for the file `name`.json of a generation when it is not as it must be."""
    if not isinstance(document, dict):
        raise ValueError(f"{name}.json must be a JSON object")
    _check_keys(name, "", document, set(_KEYS))
    for key, types in _KEYS.items():
        if not isinstance(document[key], types):
            raise ValueError(f"{name}.json: {key} must not be {document[key]!r}")
    _check_choice(name, "duty_cycle_per", document["duty_cycle_per"])
    _check_keys(name, "chip.", document["chip"], _names(Chip))
    _check_rows(name, "types", document["types"], _names(AcceleratorType) - {"generation"})
    _check_rows(name, "prices", document["prices"], _names(ListPrice))
    for constant, row in document["calibration"].items():
        _check_keys(name, f"calibration.{constant}.", row, _names(Calibration))
    _check_prefix(name, document)
    _check_quota(name, document)


def _check_rows(name: str, key: str, rows: Iterable[Mapping[str, Any]], wanted: set[str]) -> None:
    for index, row in enumerate(rows):
        _check_keys(name, f"{key}[{index}].", row, wanted)


def _check_prefix(name: str, document: Mapping[str, Any]) -> None:
    for row in document["types"]:
        if not row["name"].startswith(document["type_prefix"]):
            raise ValueError(f"{name}.json: {row['name']} does not begin with its type_prefix")


def _check_quota(name: str, document: Mapping[str, Any]) -> None:
    quota = document["quota"]
    if quota is not None:
        _check_keys(name, "quota.", quota, _names(QuotaNaming))
        _check_choice(name, "quota.unit", quota["unit"])
        _check_choice(name, "quota.scope", quota["scope"])
    elif document["api_creatable"]:
        raise ValueError(f"{name}.json: what the API creates must have a quota")


def _names(record: Any) -> set[str]:
    return {field.name for field in fields(record)}


def _check_keys(name: str, place: str, document: Mapping[str, Any], wanted: set[str]) -> None:
    for key in sorted(wanted - set(document)):
        raise ValueError(f"{name}.json has no {place}{key}")
    for key in sorted(set(document) - wanted):
        raise ValueError(f"{name}.json: unknown key {place}{key}")


def _check_choice(name: str, key: str, value: object) -> None:
    if value not in _CHOICES[key]:
        raise ValueError(f"{name}.json: {key} must be {' or '.join(_CHOICES[key])}, not {value!r}")
