"""The filter language: examples, and a random expression against its own meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.filters import FilterFields, matcher, ordering, select_items

FIELDS = {"type", "name"}
V5E = {"type": "v5litepod-16", "name": "projects/p/locations/z/acceleratorTypes/v5litepod-16"}
V4 = {"type": "v4-8", "name": "projects/p/locations/z/acceleratorTypes/v4-8"}


@pytest.mark.parametrize(
    ("text", "v5e", "v4"),
    [
        ("", True, True),
        ("type=v5litepod-16", True, False),
        ('type = "v5litepod-16"', True, False),
        ("type='v4-8'", False, True),
        ("type!=v4-8", True, False),
        ("type:v5*", True, False),
        ("type:lite", True, False),
        ("type=lite", False, False),
        ("type=*", True, True),
        ("type=v*-*6", True, False),
        ("NOT type=v4-8", True, False),
        ("-type=v4-8", True, False),
        ("type:v name:v4", False, True),
        ("type:v AND name:v4", False, True),
        ("type=v4-8 OR type=v5litepod-16", True, True),
        ("type:v4 OR type:v5 AND type:lite", True, False),  # OR binds closer than AND
        ("type:v4 OR (type:v5 AND type:lite)", True, True),
        ("type>=v5", True, False),
        (r'type="v4\-8"', False, True),
    ],
)
def test_examples(text, v5e, v4):
    matches = matcher(text, FIELDS)
    assert (matches(V5E), matches(V4)) == (v5e, v4)


@pytest.mark.parametrize(
    "text",
    [
        "type",
        "type=",
        "=v4-8",
        "type==v4-8",
        "zone=a",
        "type.x=a",
        "(type=a",
        "type=a)",
        "()",
        "type=a AND",
        "OR type=a",
        '"',
        "!type=a",
        "type=(a OR b)",
        "(" * 5000,
        "type=a " * 1000,
        "(" * 40 + "type=a" + ")" * 40,
    ],
)
def test_what_cannot_be_understood_is_an_invalid_argument(text):
    with pytest.raises(CloudError, match=r"filter.*\[EID: 0x") as refusal:
        matcher(text, FIELDS)
    assert refusal.value.code == Code.INVALID_ARGUMENT


@given(st.text(alphabet="type=:()<>!-*\"'\\ ANDORNT v4", max_size=60))
def test_any_text_is_a_filter_or_an_invalid_argument(text):
    try:
        matches = matcher(text, FIELDS)
    except CloudError as error:
        assert error.code == Code.INVALID_ARGUMENT
    else:
        assert matches(V4) in (True, False)


VALUES = st.sampled_from(["a", "b"])
TERMS = st.tuples(st.sampled_from(["type", "name"]), st.sampled_from(["=", "!="]), VALUES)
EXPRESSIONS = st.recursive(
    TERMS,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner), st.tuples(st.just("NOT"), inner)
    ),
    max_leaves=8,
)


def written(expression):
    match expression:
        case ("NOT", inner):
            return f"NOT ({written(inner)})"
        case ("AND" | "OR" as word, left, right):
            return f"({written(left)}) {word} ({written(right)})"
    field, operator, value = expression
    return f"{field}{operator}{value}"


def meant(expression, item):
    match expression:
        case ("NOT", inner):
            return not meant(inner, item)
        case ("AND", left, right):
            return meant(left, item) and meant(right, item)
        case ("OR", left, right):
            return meant(left, item) or meant(right, item)
    field, operator, value = expression
    return (item[field] == value) == (operator == "=")


@given(EXPRESSIONS, VALUES, VALUES)
def test_a_filter_means_what_it_says(expression, kind, name):
    item = {"type": kind, "name": name}
    assert matcher(written(expression), FIELDS)(item) == meant(expression, item)


def sorted_by(order_by, items):
    return [item for item in sorted(items, key=ordering(order_by, FIELDS))]


def test_order_by():
    items = [{"type": "b", "name": "1"}, {"type": "a", "name": "1"}, {"type": "a", "name": "2"}]
    b1, a1, a2 = items
    assert sorted_by("type", items) == [a1, a2, b1]
    assert sorted_by("type asc, name desc", items) == [a2, a1, b1]
    assert sorted_by("name desc,type desc", items) == [a2, b1, a1]
    for wrong in ("zone", "type up", "type,,name", "type name"):
        with pytest.raises(CloudError, match="Invalid order_by"):
            ordering(wrong, FIELDS)


def test_selected_filters_and_sorts():
    fields = {"name": str, "size": lambda text: str(len(text))}
    assert select_items(["bb", "a", "ccc"], fields, "size!=1", "") == ("bb", "ccc")
    assert select_items(["bb", "a", "ccc"], fields, "", "size desc") == ("ccc", "bb", "a")


TEXT_FUNCTIONS = FilterFields(FIELDS, has_functions=True)


@pytest.mark.parametrize(
    ("text", "v5e", "v4"),
    [
        ('type = starts_with("v5")', True, False),
        ('type = ends_with("-8") AND name = has_substring("zones")', False, False),
        ('type = one_of("v4-8", "v5litepod-16")', True, True),
        ('type != one_of("v4-8","v3-8")', True, False),
        ('NOT type = starts_with("v5") OR type = ends_with("16")', True, True),
        ("type = starts_with", False, False),  # a word, as nothing follows
    ],
)
def test_functions_of_text_where_they_are_on(text, v5e, v4):
    matches = matcher(text, TEXT_FUNCTIONS)
    assert (matches(V5E), matches(V4)) == (v5e, v4)


@pytest.mark.parametrize(
    "text",
    [
        'type = like("v5")',
        'type : starts_with("v5")',
        'type = starts_with("v5", "v4")',
        "type = starts_with()",
        'type = one_of("v5",)',
        'type = one_of("v5"',
    ],
)
def test_functions_that_make_no_sense_are_refused(text):
    with pytest.raises(CloudError) as refused:
        matcher(text, TEXT_FUNCTIONS)
    assert refused.value.code == Code.INVALID_ARGUMENT


def test_where_functions_are_off_a_parenthesis_is_none():
    with pytest.raises(CloudError):
        matcher('type = starts_with("v5")', FIELDS)
