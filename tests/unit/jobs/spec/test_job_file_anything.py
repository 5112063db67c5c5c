"""Whatever a file holds, it is a job, or one line that says where it is not."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tpuctl.errors import NotFoundError, UsageError
from tpuctl.jobs.spec import job_file_schema
from tpuctl.jobs.spec.job_file import load
from tpuctl.models.job import JobSpec

BEGINNING = "name: digits\nrun: python3 train.py\n"
OF_THE_WHOLE = re.compile(
    r"is empty|must be a mapping of keys to values, not|has no '|is not YAML: "
)
"""What is wrong on no line in particular."""
NAMES = sorted(
    {
        name
        for each in [
            job_file_schema.load_schema(),
            *job_file_schema.load_schema()["properties"].values(),
        ]
        for name in each.get("properties", {})
    }
)
WORDS = st.sampled_from(
    ["always", "never", "90s", "v5litepod-16", "us-west4-a", "gs://b/x", "$BUCKET", "env:A", "~x",
     "sm://projects/p/secrets/s", "file:x", "tensorflow", "4x4", ".", "/data", "a\nb", "\0", "é"]
)  # fmt: skip
LEAVES = st.one_of(
    WORDS, st.text(max_size=12), st.integers(), st.floats(), st.booleans(), st.none()
)
KEYS = st.one_of(st.sampled_from(NAMES), st.text(max_size=8), st.just("A"))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.one_of(st.sampled_from(NAMES), KEYS), VALUES, max_size=6)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("anything") / "job.yaml"


def check(place: Path, text: str) -> None:
    place.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found = load(place, bucket="b", environ={"A": "1"})
    except (UsageError, NotFoundError) as error:
        line = str(error)
        assert "\n" not in line
        line.encode()
        assert re.search(r"\(line \d+\)", line) or OF_THE_WHOLE.search(line) or "UTF-8" in line
    else:
        assert isinstance(found, JobSpec)


@given(DOCUMENTS)
def test_a_document_of_any_values(place, document):
    text = yaml.safe_dump(document, allow_unicode=True)
    check(place, text)
    check(place, BEGINNING + text if document else text)


@given(st.text(max_size=60))
@example('a: !!int "x\\ny"\n')
@example('name: "\\ud800"\n')
@example('"\\ud800": 1\n')
@example("? [a]\n: b\n")
@example("a: *b\n")
@example("--- a\n--- b\n")
@example("a: !!python/object:os.system x\n")
@example("%YAML 9.9\n---\na: b\n")
def test_any_text(place, text):
    check(place, text)
    check(place, BEGINNING + text)


WHOLE = (Path(__file__).parents[4] / "docs" / "job-file.md").read_text("utf-8")
WHOLE = re.search(r"```yaml\n(.*?)```", WHOLE, re.DOTALL)[1]


@given(st.integers(0, len(WHOLE)), st.integers(0, 12), st.text(max_size=6))
def test_a_good_file_with_a_slip_of_the_hand(place, start, removed, put):
    check(place, WHOLE[:start] + put + WHOLE[start + removed :])
