"""Checks the file of a generation; a mistake in it is named with file and key."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from itertools import chain
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from tpuctl.catalog.records import (
    AcceleratorType,
    Calibration,
    Chip,
    Generation,
    ListPrice,
    QuotaNaming,
    SkuNaming,
)

_DERIVED = ("name", "zones_by_size")
"""What a generation has that its file does not say by that key."""
_CHOICES = {
    "duty_cycle_per": ("chip", "device"),
    "quota.unit": ("chips", "cores"),
    "quota.scope": ("zone", "region"),
}


def check(name: str, document: object) -> None:
    """Raises ValueError for the file `name`.json of a generation when it is not as it must be."""
    if not isinstance(document, dict):
        raise ValueError(f"{name}.json must be a JSON object")
    types = {key: hint for key, hint in get_type_hints(Generation).items() if key not in _DERIVED}
    types["zones"] = dict  # by the size of their slices
    _check_keys(name, "", document, set(types))
    for key, hint in types.items():
        if not isinstance(document[key], _json_types(hint)):
            raise ValueError(f"{name}.json: {key} must not be {document[key]!r}")
    _check_choice(name, "duty_cycle_per", document["duty_cycle_per"])
    _check_keys(name, "chip.", document["chip"], _names(Chip))
    _check_rows(name, "types", document["types"], _names(AcceleratorType) - {"generation"})
    _check_rows(name, "prices", document["prices"], _names(ListPrice))
    for constant, row in document["calibration"].items():
        _check_keys(name, f"calibration.{constant}.", row, _names(Calibration))
    for row in document["types"]:
        if not row["name"].startswith(document["type_prefix"]):
            raise ValueError(f"{name}.json: {row['name']} does not begin with its type_prefix")
    _check_quota(name, document)
    if document["sku"] is not None:
        _check_keys(name, "sku.", document["sku"], _names(SkuNaming))


def _json_types(hint: Any) -> tuple[type, ...]:
    """The types that a JSON document has where a record has that type."""
    if isinstance(hint, UnionType):
        return tuple(chain.from_iterable(map(_json_types, get_args(hint))))
    if hint in (str, bool, int, NoneType):
        return (hint,)
    return (list,) if get_origin(hint) is tuple else (dict,)


def _check_rows(name: str, key: str, rows: Iterable[Mapping[str, Any]], wanted: set[str]) -> None:
    for index, row in enumerate(rows):
        _check_keys(name, f"{key}[{index}].", row, wanted)


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
