"""Public models: the shape of each, as its publisher's configuration has it, with the source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tpuctl.catalog.unknown_error import UnknownError, nearest

_DATA = Path(__file__).with_name("data") / "public_models.json"


@dataclass(frozen=True, slots=True)
class PublicModel:
    """A model that anybody may train or serve; `shape` has the fields of a Transformer.

    `parameters` is the total that its publisher states, `family` what it was derived from: models
    of one family differ in their sizes only.
    """

    name: str
    family: str
    parameters: int
    context_tokens: int
    shape: Mapping[str, Any]
    aliases: tuple[str, ...]
    source: str


def public_model(name: str) -> PublicModel:
    """One model by its name or an alias, upper or lower case; raises UnknownError."""
    known = _by_name()
    if name.lower() not in known:
        raise UnknownError("model", name, nearest(name.lower(), known) or tuple(_models()))
    return known[name.lower()]


def public_models() -> tuple[PublicModel, ...]:
    """All of them, in the order of their names."""
    return tuple(_models().values())


@cache
def _models() -> Mapping[str, PublicModel]:
    raw: dict[str, dict[str, Any]] = json.loads(_DATA.read_text("utf-8"))
    return MappingProxyType(
        {
            name: PublicModel(
                name=name,
                shape=MappingProxyType(row.pop("shape")),
                aliases=tuple(row.pop("aliases", ())),
                **row,
            )
            for name, row in sorted(raw.items())
        }
    )


@cache
def _by_name() -> Mapping[str, PublicModel]:
    models = _models().values()
    return {name: model for model in models for name in (model.name, *model.aliases)}
