"""The schema that editors read is made of the tables that a plan file is checked by."""

import re
from pathlib import Path

import pytest
import yaml

from tpuctl.errors import TpuctlError
from tpuctl.operations.planning.given_values import GivenValue, read_file
from tpuctl.operations.planning.plan_specs import serve_spec, train_spec
from tpuctl.operations.planning.value_kinds import (
    FLAG_WORDS,
    VALUE_KINDS,
    AmountKind,
    ChoiceKind,
    FlagKind,
)
from unit.operations.planning.plan_file_schema import FILE, schema, text
from unit.operations.planning.schema_faults import faults

PAGE = (Path(__file__).parents[4] / "docs" / "planning.md").read_text("utf-8")
NEEDED = {
    "model": "llama-3-8b",
    "run": {"tokens": "1T", "seq": 8192},
    "serve": {"in": 1024, "out": 256},
}


def with_value(path, value):
    """A whole plan with one value."""
    group, _, key = path.partition(".")
    key, _, axis = key.partition(".")
    below = {key: {axis: value}} if axis else {key: value}
    return {**NEEDED, group: {**NEEDED.get(group, {}), **below}}


def is_read(path, value):
    """Whether the reader takes a value that is written so."""
    needed = {"model": "llama-3-8b", "run.tokens": "1T", "run.seq": "8192",
              "serve.in": "1024", "serve.out": "256"}  # fmt: skip
    given = {name: GivenValue(str(each), name) for name, each in {**needed, path: value}.items()}
    try:
        (serve_spec if path.startswith("serve") else train_spec)(given)
    except TpuctlError:
        return False
    return True


def tried(kind):
    """Values of a kind, and values that are nearly of it."""
    match kind:
        case AmountKind(least=least, most=most):
            return [-1, 0, 1, 1.5, 2, int(most), int(most) * 2, "1k", "many"] + (
                [least / 2] if least < 1 else []
            )
        case ChoiceKind(names=names):
            return [*names, 5, "other", *(int(name) for name in names if name.isdecimal())]
        case FlagKind():
            return [*FLAG_WORDS, "TRUE", "maybe", 2, True]
    return []


def test_the_file_is_that_of_the_tables():
    stale = "stale: PYTHONPATH=tests python -m unit.operations.planning.plan_file_schema"
    assert FILE.read_text("utf-8") == text(), stale


@pytest.mark.parametrize("path", [path for path in VALUE_KINDS if path != "model"])
def test_the_schema_and_the_reader_take_the_same_values(path):
    values = tried(VALUE_KINDS[path])
    if path == "run.batch_tokens":
        values = [value for value in values if value not in (1, 1.5, 2, "1k")]  # below a sequence
    found = {value: (not faults(with_value(path, value), schema())) for value in values}
    assert found == {value: is_read(path, value) for value in values}


def test_the_file_of_the_page_keeps_it(tmp_path):
    written = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
    assert faults(yaml.safe_load(written), schema()) == []
    file = tmp_path / "plan.yaml"
    file.write_text(written)
    assert read_file(file)


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("run: {token: 1T}", ["$.run.token"]),
        ("run: {tokens: }", ["$.run.tokens"]),
        ("run: 5", ["$.run"]),
        ("- a list", ["$"]),
        ("run: {tokens: {a: 1}}", ["$.run.tokens"]),
        ("run: {mesh: fdsp=4}", ["$.run.mesh"]),
        ("run: {mesh: {fdsp: 4}}", ["$.run.mesh.fdsp"]),
        ("slices: {types: []}", ["$.slices.types"]),
        ("model: {experts: {count: 8, per_token: 2}, layers: 2, hidden: 8, heads: 1, kv_heads: 1, "
         "head_dim: 8, mlp_hidden: 8, vocab: 8}", ["$.model.experts.hidden"]),
    ],
)  # fmt: skip
def test_what_the_reader_refuses_is_marked_at_its_place(tmp_path, written, wrong):
    assert faults(yaml.safe_load(written), schema()) == wrong
    file = tmp_path / "plan.yaml"
    file.write_text(written)
    with pytest.raises(TpuctlError):
        train_spec({**read_file(file), "run.seq": GivenValue("8192", "--seq")})
