"""Reads the data files: each at most once, and only the generations that are asked for."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tpuctl.catalog.records import AcceleratorType, Chip, Generation, ListPrice
from tpuctl.catalog.unknown import UnknownError, nearest

TYPE_PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "v2": "v2-",
        "v3": "v3-",
        "v4": "v4-",
        "v5e": "v5litepod-",
        "v5p": "v5p-",
        "v6e": "v6e-",
        "tpu7x": "tpu7x-",
    }
)
"""Generation -> how its accelerator types begin; kept here to know which file to read."""

_DATA = Path(__file__).with_name("data")


def generation(name: str) -> Generation:
    """One generation by its name (`v5e`); raises UnknownError."""
    if name not in TYPE_PREFIXES:
        near = nearest(name.lower(), TYPE_PREFIXES) or tuple(TYPE_PREFIXES)
        raise UnknownError("generation", name, near)
    return _read(name)


def generations() -> tuple[Generation, ...]:
    """Every generation, oldest first."""
    return tuple(map(_read, TYPE_PREFIXES))


@cache
def types_by_name(generation_name: str) -> Mapping[str, AcceleratorType]:
    """The accelerator types of a known generation."""
    return {kind.name: kind for kind in _read(generation_name).types}


@cache
def _read(name: str) -> Generation:
    raw: dict[str, Any] = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    zones_by_size = {size: tuple(zones) for size, zones in raw.pop("zones").items()}
    return Generation(
        name=name,
        type_prefix=TYPE_PREFIXES[name],
        chip=_chip(**raw.pop("chip")),
        types=tuple(AcceleratorType(generation=name, **row) for row in raw.pop("types")),
        zones=tuple(dict.fromkeys(zone for zones in zones_by_size.values() for zone in zones)),
        zones_by_size=MappingProxyType(zones_by_size),
        runtime_versions=tuple(raw.pop("runtime_versions")),
        prices=tuple(ListPrice(**row) for row in raw.pop("prices")),
        sources=MappingProxyType(raw.pop("sources")),
        **raw,
    )


def _chip(*, power_w: tuple[float, float, float] | None, **figures: Any) -> Chip:
    return Chip(power_w=power_w and (power_w[0], power_w[1], power_w[2]), **figures)
