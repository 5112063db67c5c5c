"""Looks up types, zones, runtime versions and prices in the catalog."""

import json
import re
from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path

from tpuctl.catalog import load
from tpuctl.catalog.records import AcceleratorType, Generation, Price
from tpuctl.catalog.unknown_error import UnknownError, nearest

_DEFAULTS = Path(__file__).with_name("data") / "defaults.json"
TENSORFLOW_PREFIX = "tpu-vm-tf-"
_TENSORFLOW = re.compile(rf"{TENSORFLOW_PREFIX}([\d.]+)(-pod)?-pjrt")


def accelerator_type(name: str) -> AcceleratorType:
    """One accelerator type by its name (`v5litepod-16`); raises UnknownError."""
    for generation, prefix in load.type_prefixes().items():
        if name.startswith(prefix) and name in load.types_by_name(generation):
            return load.types_by_name(generation)[name]
    raise UnknownError("accelerator type", name, _nearest_types(name))


def accelerator_types(
    *, generation: str | None = None, zone: str | None = None
) -> tuple[AcceleratorType, ...]:
    """The types that the API can create, or all of one generation; of one zone when given."""
    if zone is not None and zone not in zones():
        raise UnknownError("zone", zone, nearest(zone, zones()))
    wanted = _creatable() if generation is None else (load.generation(generation),)
    return tuple(
        kind
        for each in wanted
        for kind in each.types
        if zone is None or zone in each.zones_for(kind)
    )


def accelerator_type_of_topology(config_enum: str, topology: str) -> AcceleratorType:
    """The type that gcloud's `--type V5LITE_POD --topology 4x4` means; raises UnknownError."""
    generation = _generation_of_enum(config_enum)
    for kind in generation.types:
        if kind.topology == topology:
            return kind
    raise UnknownError("topology", topology, _nearest_topologies(generation, topology))


@cache
def zones() -> tuple[str, ...]:
    """Every zone where the API offers a slice, sorted."""
    return tuple(sorted({zone for generation in _creatable() for zone in generation.zones}))


def zones_of(type_name: str) -> tuple[str, ...]:
    """The zones where the API offers a type, which promises no capacity; none if it does not."""
    kind = accelerator_type(type_name)
    generation = load.generation(kind.generation)
    return generation.zones_for(kind) if generation.api_creatable else ()


def runtime_versions(generation: str | None = None) -> tuple[str, ...]:
    """The runtime versions of one generation, or of all."""
    wanted = load.generations() if generation is None else (load.generation(generation),)
    return tuple(dict.fromkeys(name for each in wanted for name in each.runtime_versions))


def default_runtime_version(type_name: str) -> str:
    """The runtime version Google recommends for JAX and PyTorch; raises UnknownError."""
    default = load.generation(accelerator_type(type_name).generation).default_runtime_version
    if default is None:
        raise UnknownError("accelerator type", type_name)  # to the API that takes runtime versions
    return default


def tensorflow_runtime_version(type_name: str) -> str:
    """The newest runtime version with TensorFlow for a type; raises UnknownError.

    Slices of several workers boot an image of their own, `-pod`.
    """
    kind = accelerator_type(type_name)
    found = map(_TENSORFLOW.fullmatch, runtime_versions(kind.generation))
    fitting = [match for match in found if match and bool(match[2]) == (kind.workers > 1)]
    if not fitting:
        raise UnknownError("runtime version", f"{TENSORFLOW_PREFIX}*")
    return max(fitting, key=lambda match: [int(part) for part in match[1].split(".")])[0]


def default_type(purpose: str) -> str:
    """The accelerator type for a purpose of `data/defaults.json`, such as `bench`."""
    defaults: Mapping[str, str] = json.loads(_DEFAULTS.read_text(encoding="utf-8"))
    return defaults[purpose]


def price(type_name: str, zone: str, provisioning: str) -> Price | None:
    """The public price of a slice, or None where there is none; `provisioning` as in the API."""
    kind = accelerator_type(type_name)
    region = zone.rpartition("-")[0]
    for row in load.generation(kind.generation).prices:
        if (row.provisioning, row.region) == (provisioning, region) and (
            row.size in ("any", kind.size)
        ):
            usd_per_hour = round(row.usd_per_chip_hour * kind.chips, 6)
            return Price(row.usd_per_chip_hour, usd_per_hour, row.as_of, region, row.source)
    return None


def _creatable() -> tuple[Generation, ...]:
    return tuple(each for each in load.generations() if each.api_creatable)


def _generation_of_enum(config_enum: str) -> Generation:
    prefix = config_enum.lower().replace("_", "") + "-"
    for generation in _creatable():
        if generation.type_prefix == prefix:
            return generation
    known = {each.config_enum: each for each in _creatable() if each.config_enum is not None}
    named = tuple(enum for enum, each in known.items() if each.name == config_enum.lower())
    raise UnknownError("generation", config_enum, named or nearest(config_enum.upper(), known))


def _nearest_types(name: str) -> tuple[str, ...]:
    """The name in lower case, the nearest sizes of its generation, or names spelled alike."""
    name = name.lower()
    if any(name in load.types_by_name(generation) for generation in load.type_prefixes()):
        return (name,)
    stem, _, size = name.rpartition("-")
    for generation, prefix in load.type_prefixes().items():
        # People write the generation (v5e-16) where the API wants its own prefix (v5litepod-16).
        if f"{stem}-" in (f"{generation}-", prefix) and size.isdecimal() and len(size) < 9:
            return _nearest_sizes(generation, int(size))
    return nearest(name, (kind.name for kind in accelerator_types()))


def _nearest_topologies(generation: Generation, topology: str) -> tuple[str, ...]:
    """The same numbers as the API writes them, else the topologies with about as many chips."""
    sides = [int(side) for side in re.findall(r"\d{1,4}", topology)]
    known = [kind.topology for kind in generation.types]
    written = "x".join(map(str, sides))
    if written in known or not sides:
        return (written,) if sides else nearest(topology, known)
    near = sorted(generation.types, key=lambda kind: abs(kind.chips - prod(sides)))
    return tuple(dict.fromkeys(kind.topology for kind in near))[:3]


def _nearest_sizes(generation: str, size: int) -> tuple[str, ...]:
    names = load.types_by_name(generation)
    return tuple(sorted(names, key=lambda name: abs(int(name.rpartition("-")[2]) - size))[:3])
