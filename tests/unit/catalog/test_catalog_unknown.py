"""A wrong name is answered in one line, with the nearest right ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl import catalog


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "v5litepod-17",
            "unknown accelerator type 'v5litepod-17'; "
            "nearest: v5litepod-16, v5litepod-8, v5litepod-4",
        ),
        (
            "v5e-16",
            "unknown accelerator type 'v5e-16'; nearest: v5litepod-16, v5litepod-8, v5litepod-4",
        ),
        ("v5p-100", "unknown accelerator type 'v5p-100'; nearest: v5p-128, v5p-64, v5p-32"),
        (
            "v5litpod-16",
            "unknown accelerator type 'v5litpod-16'; "
            "nearest: v5litepod-16, v5litepod-1, v5litepod-64",
        ),
        ("V5LITEPOD-16", "unknown accelerator type 'V5LITEPOD-16'; nearest: v5litepod-16"),
        ("a100", "unknown accelerator type 'a100'"),
        ("", "unknown accelerator type ''"),
    ],
)
def test_unknown_accelerator_type(name, line):
    with pytest.raises(catalog.UnknownError) as caught:
        catalog.accelerator_type(name)
    assert str(caught.value) == line
    assert (caught.value.kind, caught.value.name) == ("accelerator type", name)


@pytest.mark.parametrize(
    ("ask", "kind", "nearest"),
    [
        (lambda: catalog.generation("v5"), "generation", ("v5p", "v5e")),
        (lambda: catalog.generation("V5E"), "generation", ("v5e", "v6e", "v5p")),
        (
            lambda: catalog.generation("v5litepod-16"),
            "generation",
            ("v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"),
        ),
        (
            lambda: catalog.accelerator_types(zone="us-west4-q"),
            "zone",
            ("us-west4-b", "us-west4-a", "us-west1-c"),
        ),
        (
            lambda: catalog.accelerator_type_of_topology("V5LITE", "4x4"),
            "generation",
            ("V5LITE_POD",),
        ),
        (
            lambda: catalog.accelerator_type_of_topology("v5e", "4x4"),
            "generation",
            ("V5LITE_POD",),
        ),
        (
            lambda: catalog.accelerator_types(zone="US-West4-A"),
            "zone",
            ("us-west4-a", "us-west4-b", "us-east4-a"),
        ),
        (
            lambda: catalog.accelerator_type_of_topology("V5LITE_POD", "3x3"),
            "topology",
            ("2x4", "2x2", "4x4"),
        ),
        (
            lambda: catalog.accelerator_type_of_topology("V5LITE_POD", "4X4"),
            "topology",
            ("4x4",),
        ),
        (
            lambda: catalog.accelerator_type_of_topology("V6E", "4x5"),
            "topology",
            ("4x4", "2x4", "4x8"),
        ),
    ],
)
def test_unknown_other_names(ask, kind, nearest):
    with pytest.raises(catalog.UnknownError) as caught:
        ask()
    assert (caught.value.kind, caught.value.nearest) == (kind, nearest)


@given(st.text())
def test_any_text_is_a_known_type_or_one_line(name):
    try:
        assert catalog.accelerator_type(name).name == name
    except catalog.UnknownError as error:
        assert len(str(error).splitlines()) == 1


def test_a_size_beyond_every_number_is_only_unknown():
    with pytest.raises(catalog.UnknownError):
        catalog.accelerator_type("v5p-" + "9" * 5000)


def test_nearest_offers_at_most_three():
    assert catalog.nearest("us-west4-d", catalog.zones()) == (
        "us-west4-b",
        "us-west4-a",
        "us-west1-c",
    )
    assert catalog.nearest("zzz", catalog.zones()) == ()
