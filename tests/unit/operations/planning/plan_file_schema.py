"""docs/plan-file.schema.json, made of the tables that a plan file is checked by.

`PYTHONPATH=tests python -m unit.operations.planning.plan_file_schema` writes it. Values are read as
texts: an amount may be a number or `4M`, a list one text with commas. So may they in the schema.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from tpuctl import catalog
from tpuctl.catalog.public_models import public_models
from tpuctl.models.planning import plan_spec
from tpuctl.operations.planning.given_values import KEYS, TEXTS
from tpuctl.operations.planning.value_kinds import (
    FLAG_WORDS,
    VALUE_KINDS,
    AmountKind,
    ChoiceKind,
    DurationKind,
    FlagKind,
    NameKind,
    ValueKind,
    shape_kind,
)
from tpuctl.perfmodel.workload.transformer import (
    Experts,
    LatentAttention,
    LinearAttention,
    Transformer,
)

FILE = Path(__file__).parents[4] / "docs" / "plan-file.schema.json"
VERSION = 1
RECORDS: Mapping[str, type] = {
    "model": Transformer,
    "model.experts": Experts,
    "model.attention.latent": LatentAttention,
    "model.attention.linear": LinearAttention,
}
"""The mappings that need those of their fields that have no default."""
_NAMES: Mapping[str, Any] = {
    "slices.zone": catalog.zones,
    "slices.generations": lambda: [one.name for one in catalog.generations()],
}
_AMOUNT = r"^[ ]*\+?[0-9][0-9_]{0,30}(\.[0-9]{1,15})?([eE][0-9]{1,2})?[kmbgtKMBGT]?[ ]*$"
_MESH = rf"^[ ]*({'|'.join(KEYS['run.mesh'])})[ ]*="


def schema() -> dict[str, Any]:
    """The whole document: JSON Schema 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:tpuctl:schema:plan-file:{VERSION}",
        "title": "tpuctl plan file",
        "description": "What `tpuctl plan FILE` and `tpuctl plan serve FILE` plan.",
        **_mapping(""),
    }


def text() -> str:
    """The file as it is shipped."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _mapping(path: str) -> dict[str, Any]:
    below = {key: _below(f"{path}.{key}".lstrip(".")) for key in KEYS[path]}
    required = (
        [
            each.name
            for each in fields(RECORDS[path])
            if each.default is MISSING and each.default_factory is MISSING
        ]
        if path in RECORDS
        else []
    )
    found = {"type": "object", "additionalProperties": False, "properties": below}
    return {**found, "required": required} if required else found


def _below(path: str) -> dict[str, Any]:
    if path not in KEYS:
        return _value(VALUE_KINDS[path] if path in VALUE_KINDS else shape_kind(path), path)
    if path not in TEXTS:
        return _mapping(path)
    return {"anyOf": [_text_of(path), _mapping(path)]}


def _text_of(path: str) -> dict[str, Any]:
    """The text that may stand in place of a mapping: the name of a model, a mesh."""
    if path == "run.mesh":
        return {"type": "string", "pattern": _MESH}
    return {"type": "string", "examples": [model.name for model in public_models()]}


def _value(kind: ValueKind, path: str) -> dict[str, Any]:
    match kind:
        case AmountKind(least=least, most=most, is_whole=is_whole):
            number = {
                "type": "integer" if is_whole else "number",
                "minimum": least,
                "maximum": most,
            }
            filled = [{"const": plan_spec.FILLED}] if path.startswith("run.mesh.") else []
            return {"anyOf": [*filled, number, {"type": "string", "pattern": _AMOUNT}]}
        case ChoiceKind(names=names):
            numbers = [int(name) for name in names if name.isdecimal()]
            return {"enum": [*numbers, *names]}
        case DurationKind():
            return {"type": "string", "minLength": 2, "examples": ["12h", "250ms"]}
        case FlagKind():
            words = "|".join(FLAG_WORDS)
            return {
                "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": f"^(?i:{words})$"}]
            }
        case NameKind(is_list=is_list):
            name = {"type": "string", "minLength": 1, **_examples(path)}
            return (
                {"anyOf": [name, {"type": "array", "minItems": 1, "items": name}]}
                if is_list
                else name
            )


def _examples(path: str) -> dict[str, Any]:
    return {"examples": list(_NAMES[path]())} if path in _NAMES else {}


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
