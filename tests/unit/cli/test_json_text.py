"""JSON that is written for people and programs: the same text as that of the standard library."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tpuctl.cli.shell.tables.json_text import json_pieces

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.text() | st.integers() | st.booleans() | st.none()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_the_text_is_that_of_the_standard_library(value):
    assert "".join(json_pieces(value)) == json.dumps(value, indent=2)


def test_the_rows_of_a_document_come_one_at_a_time():
    pieces = list(json_pieces({"rows": [{"a": 1}] * 5, "total": 5}))
    assert max(map(len, pieces)) < 40
