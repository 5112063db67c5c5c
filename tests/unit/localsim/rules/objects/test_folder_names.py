"""The names of folders, and what lies above and behind them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.objects.folders.folder_names import (
    behind_folder,
    complete_managed_name,
    complete_name,
    parent_names,
)
from localsim.rules.objects.storage_model import StorageError

PARTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=3), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("a", []),
        ("a/", []),
        ("a/b", ["a/"]),
        ("a/b/", ["a/"]),
        ("a/b/c", ["a/b/", "a/"]),
        ("/a", ["/"]),
        ("a//b", ["a//", "a/"]),
    ],
)
def test_what_is_above_a_name(name, above):
    assert list(parent_names(name)) == above


def test_a_slash_is_added_once():
    assert complete_name("a/b") == complete_name("a/b/") == "a/b/"


@pytest.mark.parametrize("name", ["", "x" * 512, "x/" * 51, "a\n", "é" * 256])
def test_names_that_cannot_be(name):
    with pytest.raises(StorageError) as refused:
        complete_name(name)
    assert refused.value.code == 400


def test_the_longest_names():
    assert complete_name("x" * 511)
    assert complete_name("x/" * 50)
    assert complete_managed_name("x/" * 15)


@given(PARTS, st.text(st.characters(codec="utf-8"), max_size=3))
def test_what_is_in_a_folder_lies_before_what_is_behind_it(parts, name):
    folder = "".join(f"{part}/" for part in parts)
    assert folder <= folder + name < behind_folder(folder)
    assert all((folder + name).startswith(parent) for parent in parent_names(folder + name))


@given(PARTS)
def test_what_is_behind_a_folder_is_not_in_it(parts):
    folder = "".join(f"{part}/" for part in parts)
    assert not behind_folder(folder).startswith(folder)
    assert folder.encode() < behind_folder(folder).encode()
