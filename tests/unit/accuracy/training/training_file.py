"""train_constants.json, as the fit writes it: `PYTHONPATH=tests python -m
unit.accuracy.training.training_file`; the accuracy page writes it, too."""

import json
from pathlib import Path
from typing import Any

from tpuctl.perfmodel.workload.training import train_constants
from unit.accuracy.constant_fit import rounded
from unit.accuracy.training.training_fit import column
from unit.accuracy.training.training_rows import training_rows
from unit.accuracy.training.training_scores import (
    foreign_generations,
    full_fit,
    of_use,
    spreads,
)

CONSTANTS = Path(train_constants.__file__).with_suffix(".json")


def constants_text() -> str:
    """The whole file."""
    return json.dumps(_document(), indent=1) + "\n"


def _document() -> dict[str, Any]:
    told = full_fit()
    generations = list(column("generation")[of_use("fitted")])
    return {
        "constants": {name: rounded(value) for name, value in told.constants.items()},
        "slowness": {name: rounded(value) for name, value in told.generations.items()},
        "rows": {name: generations.count(name) for name in told.generations},
        "spread": {
            kind: {known: [rounded(low), rounded(high)] for known, (low, high) in each.items()}
            for kind, each in spreads().items()
        },
        "foreign": foreign_generations(),
        "models": _fitted_models(),
    }


def _fitted_models() -> dict[str, list[str]]:
    """Generation -> the shapes that steps of it are fitted to."""
    models: dict[str, set[str]] = {}
    for row in training_rows():
        if row.use == "fitted":
            key = train_constants.shape_key(row.model)
            models.setdefault(row.generation, set()).add(key)
    return {generation: sorted(keys) for generation, keys in sorted(models.items())}


if __name__ == "__main__":
    CONSTANTS.write_text(constants_text(), encoding="utf-8")
