"""Reads the data files, one per generation: all at the first question, each checked once."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tpuctl.catalog.records import (
    AcceleratorType,
    Calibration,
    Chip,
    Generation,
    ListPrice,
    QuotaNaming,
    SkuNaming,
)
from tpuctl.catalog.unknown_error import UnknownError, nearest
from tpuctl.catalog.validation import check

_GENERATIONS = Path(__file__).with_name("data") / "generations"


def generation(name: str) -> Generation:
    """One generation by its name (`v5e`); raises UnknownError."""
    known = _documents()
    if name not in known:
        raise UnknownError("generation", name, nearest(name.lower(), known) or tuple(known))
    return _generation(name)


def generations() -> tuple[Generation, ...]:
    """Every generation, oldest first."""
    return tuple(map(_generation, _documents()))


@cache
def type_prefixes() -> Mapping[str, str]:
    """Generation -> how the names of its accelerator types begin, oldest generation first."""
    return {name: str(document["type_prefix"]) for name, document in _documents().items()}


@cache
def types_by_name(generation_name: str) -> Mapping[str, AcceleratorType]:
    """The accelerator types of a known generation."""
    return {kind.name: kind for kind in _generation(generation_name).types}


@cache
def _documents() -> Mapping[str, Mapping[str, Any]]:
    """Name -> content of its file, oldest first; raises ValueError for a file that is not valid."""
    documents = {}
    for path in _GENERATIONS.glob("*.json"):
        documents[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        check(path.stem, documents[path.stem])
    return dict(sorted(documents.items(), key=lambda item: (item[1]["announced"], item[0])))


@cache
def _generation(name: str) -> Generation:
    raw = dict(_documents()[name])
    zones_by_size = {size: tuple(zones) for size, zones in raw.pop("zones").items()}
    chip, quota, sku = raw.pop("chip"), raw.pop("quota"), raw.pop("sku")
    calibration = raw.pop("calibration")
    return Generation(
        name=name,
        chip=Chip(**chip | {"power_w": chip["power_w"] and tuple(chip["power_w"])}),
        types=tuple(AcceleratorType(generation=name, **row) for row in raw.pop("types")),
        zones=tuple(dict.fromkeys(zone for zones in zones_by_size.values() for zone in zones)),
        zones_by_size=MappingProxyType(zones_by_size),
        runtime_versions=tuple(raw.pop("runtime_versions")),
        prices=tuple(ListPrice(**row) for row in raw.pop("prices")),
        quota=quota and QuotaNaming(**quota | {"suffixes": MappingProxyType(quota["suffixes"])}),
        sku=sku and SkuNaming(**sku),
        calibration=MappingProxyType(
            {constant: Calibration(**row) for constant, row in calibration.items()}
        ),
        sources=MappingProxyType(raw.pop("sources")),
        **raw,
    )
