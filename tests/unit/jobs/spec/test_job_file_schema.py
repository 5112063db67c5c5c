"""The schema is what validates, what editors read, and what the documentation shows."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tpuctl.jobs.spec import job_file_schema, scalars
from tpuctl.jobs.spec.job_file import load
from tpuctl.models.duration import parse_duration
from tpuctl.models.job import JobSpec

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "job-file.md").read_text("utf-8")
ANNOTATIONS = {
    "$schema",
    "$id",
    "title",
    "description",
    "default",
    "examples",
    "patternErrorMessage",
}
INTERPRETED = {
    "$ref", "additionalProperties", "enum", "exclusiveMinimum", "items", "maximum", "minLength",
    "minimum", "pattern", "properties", "propertyNames", "required", "type", "writeOnly",
}  # fmt: skip


def schemas(found: dict) -> list[tuple[str, dict]]:
    """Every schema in the document, with the name of the property it is for."""
    below = dict(found.get("properties", {})) | dict(found.get("$defs", {}))
    for key in ("items", "propertyNames", "additionalProperties"):
        if isinstance(found.get(key), dict):
            below[key] = found[key]
    return [*below.items(), *(each for one in below.values() for each in schemas(one))]


EVERY = [("", job_file_schema.load_schema()), *schemas(job_file_schema.load_schema())]


def test_the_page_has_the_schema_that_validates():
    shipped = (ROOT / "tpuctl" / "jobs" / "spec" / job_file_schema.FILE).read_bytes()
    assert (ROOT / "docs" / job_file_schema.FILE).read_bytes() == shipped


def test_the_schema_says_which_version_it_is():
    assert re.fullmatch(r"urn:tpuctl:schema:job-file:[1-9][0-9]*", EVERY[0][1]["$id"])


def test_no_word_of_the_schema_is_passed_over():
    used = {word for _, each in EVERY for word in each}
    assert used - ANNOTATIONS - {"$defs"} == INTERPRETED


def lacks_words(name: str, found: dict) -> bool:
    """Is there something for which an editor has no words?"""
    is_plain = found.get("type") == ["string", "number", "null"]
    is_named = is_plain or name in ("propertyNames", "variable")
    has_title = is_named or "title" in found or "$ref" in found
    has_message = "patternErrorMessage" in found or name == "duration"
    return not has_title or ("pattern" in found and not has_message)


def test_an_editor_finds_words_for_every_key():
    assert [name for name, found in EVERY[1:] if lacks_words(name, found)] == []


def test_the_examples_and_the_default_of_a_key_are_values_of_it():
    for _, found in EVERY:
        defaults = [found["default"]] if "examples" in found and "default" in found else []
        for example in [*found.get("examples", ()), *defaults]:
            node = yaml.compose(json.dumps(example))
            assert job_file_schema._value(node, found) is not None, example


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("90s", True), ("1h30m", True), ("1.5d", True), ("90", False), ("h", False), ("-1s", False)],
)
def test_the_pattern_of_a_duration_is_the_grammar_of_durations(text, is_one):
    assert (
        scalars.matches_pattern(text, job_file_schema.load_schema()["$defs"]["duration"]) == is_one
    )
    if is_one:
        assert parse_duration(text) > 0


def test_every_key_is_on_the_page_and_in_the_example():
    whole = job_file_schema.read(yaml.compose(fences()[0]))
    for name, each in job_file_schema.load_schema()["properties"].items():
        assert f"`{name}" in PAGE, name
        below = each.get("properties", {})
        missing = {f"{name}.{key}" for key in below} - set(whole.values)
        assert {path for path in missing if f"`{path}`" not in PAGE} == set(), name
    assert {*job_file_schema.load_schema()["properties"]} - {"requires", "serve"} <= set(
        whole.values
    )


def fences() -> list[str]:
    """The YAML of the page."""
    return re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


EXAMPLES = [*(ROOT / "templates").glob("*/*.yaml")]


@pytest.mark.parametrize("text", fences())
def test_an_example_of_the_page_loads(tmp_path, text):
    (tmp_path / "job.yaml").write_text(text)
    assert isinstance(load(tmp_path / "job.yaml", bucket="b", environ={}), JobSpec)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_job_file_of_a_template_loads(path):
    spec = load(path, bucket="b", environ={})
    assert (spec.serve or spec.predict or spec.checkpoints) is not None
