"""Listing objects: ranges, folding, globs, versions and pages, against a list in memory."""

import json
import re
import sqlite3
import weakref
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.objects.listing import ListQuery, list_page
from localsim.rules.objects.storage_model import StorageError, StoredObject
from localsim.rules.objects.tables import OBJECT_PLACEHOLDERS, SCHEMA, row_of_object
from unit.localsim.rules.objects.object_rig import refusal


def listed_of(*names):
    return Names((name, number, True) for number, name in enumerate(names, 1))


class Names:
    """A database of generations: (name, generation, whether it is live)."""

    def __init__(self, generations):
        self.generations = sorted(generations)
        self.connection = sqlite3.connect(":memory:")
        weakref.finalize(self, self.connection.close)
        for statement in SCHEMA:
            self.connection.execute(statement)
        for name, generation, is_live in self.generations:
            self._insert(name, generation, is_live)

    def _insert(self, name, generation, is_live):
        stored = StoredObject(
            bucket="box",
            name=name,
            generation=generation,
            metageneration=1,
            size_bytes=0,
            crc32c="AAAAAA==",
            md5=None,
            properties={},
            created_s=1.0,
            updated_s=1.0,
            deleted_s=None if is_live else 2.0,
        )
        table = "storage_objects" if is_live else "storage_noncurrent"
        row = row_of_object(stored)
        self.connection.execute(f"INSERT INTO {table} VALUES ({OBJECT_PLACEHOLDERS})", row)

    def delete(self, name):
        self.connection.execute("DELETE FROM storage_objects WHERE name = ?", (name,))

    def page(self, **query):
        return list_page(self.connection, "box", ListQuery(**query))

    def names(self, **query):
        page = self.page(**query)
        return [stored.name for stored in page.items], page.prefixes

    def all_pages(self, query):
        """Items and prefixes of all pages, and how much was on each."""
        items, prefixes, sizes = [], [], []
        while True:
            page = list_page(self.connection, "box", query)
            items += [(stored.name, stored.generation) for stored in page.items]
            prefixes += page.prefixes
            sizes.append(len(page))
            if page.next_start is None:
                return items, prefixes, sizes
            query = replace(query, start=page.next_start, start_generation=page.next_generation)

    def expected(self, query):
        """The same by brute force."""
        items, prefixes = [], []
        for name, generation, is_live in self.generations:
            if not (is_live or query.versions) or not _in_range(name, query):
                continue
            at = name.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
            folded = name[: at + len(query.delimiter)] if at >= 0 else None
            if folded is not None and folded not in prefixes and _matches(folded, query):
                prefixes.append(folded)
            shown = folded is None or (query.include_trailing_delimiter and folded == name)
            if shown and _matches(name, query):
                items.append((name, generation))
        return items, prefixes


def _in_range(name, query):
    return (
        name.startswith(query.prefix)
        and name >= query.start
        and (not query.end or name < query.end)
    )


def _matches(text, query):
    return not query.match_glob or bool(_EXPRESSIONS[query.match_glob].fullmatch(text))


_EXPRESSIONS = {
    glob: re.compile(expression, re.DOTALL)
    for glob, expression in {
        "*": r"[^/]*",
        "**": r".*",
        "a*": r"a[^/]*",
        "a**": r"a.*",
        "*/": r"[^/]*/",
        "?": r"[^/]",
        "[ab]**": r"[ab].*",
        "[!a]**": r"[^a/].*",
        "{a,b/}*": r"(a|b/)[^/]*",
    }.items()
}
ALPHABET = "ab/é\0\U0010ffff"
NAMES = st.text(ALPHABET, min_size=1, max_size=5)
SHORT = st.text(ALPHABET, max_size=2)


@st.composite
def generations(draw):
    found = []
    for name in draw(st.sets(NAMES, max_size=12)):
        count = draw(st.integers(1, 3))
        is_live = draw(st.booleans())
        found += [(name, number, is_live and number == count) for number in range(1, count + 1)]
    return found


@st.composite
def queries(draw):
    glob = draw(st.sampled_from(["", "", *_EXPRESSIONS]))
    return ListQuery(
        prefix=draw(SHORT),
        delimiter=draw(st.sampled_from(["", "/"] if glob else ["", "/", "/", "a", "ab", "é"])),
        start=draw(SHORT),
        end=draw(SHORT),
        limit=draw(st.sampled_from([1, 2, 3, 1000])),
        versions=draw(st.booleans()),
        match_glob=glob,
        include_trailing_delimiter=draw(st.booleans()),
    )


@given(generations(), queries())
def test_pages_together_are_what_brute_force_finds(found, query):
    names = Names(found)
    items, prefixes, sizes = names.all_pages(query)
    assert (items, prefixes) == names.expected(query)
    assert all(size <= query.limit for size in sizes)
    assert all(sizes[:-1])  # no page but a sole one is empty
    assert sizes[-1] or len(sizes) == 1


def test_a_folder_is_listed_as_one():
    names = listed_of("a", "dir/", "dir/x", "dir/y/z", "e")
    assert names.names(delimiter="/") == (["a", "e"], ["dir/"])
    assert names.names(prefix="dir/", delimiter="/") == (["dir/", "dir/x"], ["dir/y/"])


def test_an_object_named_like_its_folder_is_shown_on_demand():
    names = listed_of("dir/", "dir/x", "dir//", "e")
    found = names.names(delimiter="/", include_trailing_delimiter=True)
    assert found == (["dir/", "e"], ["dir/"])


def test_start_is_in_and_end_is_out():
    assert listed_of("a", "b", "c").names(start="a", end="c") == (["a", "b"], [])


def test_names_are_in_the_order_of_their_bytes():
    assert listed_of("b", "\uffff", "\U00010000", "a").names() == (
        ["a", "b", "\uffff", "\U00010000"],
        [],
    )


def test_versions_come_by_name_and_then_by_age():
    names = Names([("a", 7, True), ("a", 3, False), ("b", 5, False)])
    found = names.page(versions=True).items
    assert [(stored.name, stored.generation, stored.deleted_s) for stored in found] == [
        ("a", 3, 2.0),
        ("a", 7, None),
        ("b", 5, 2.0),
    ]


def test_a_page_goes_on_where_the_last_one_ended_though_that_object_is_gone():
    names = listed_of("a", "b", "c")
    first = names.page(limit=1)
    names.delete("b")
    assert names.names(start=first.next_start) == (["c"], [])


def test_a_glob_goes_with_no_delimiter_but_the_slash():
    assert refusal(listed_of("a").page, match_glob="*", delimiter="-")[:2] == (400, "invalid")


def test_a_glob_that_is_none_is_refused():
    with pytest.raises(StorageError, match="has no closing"):
        listed_of("a").page(match_glob="[a")


def test_a_page_reads_no_more_rows_than_it_shows():
    names = Names([(f"{number:04d}/x", number, True) for number in range(1, 3000)])
    steps = []
    names.connection.set_progress_handler(lambda: steps.append(1), 100)
    names.page(limit=10)
    plain = len(steps)
    names.page(limit=10, delimiter="/")
    folded = len(steps) - plain
    assert max(plain, folded) < 30  # each step is 100 instructions; a whole scan takes over 600


def test_what_the_rows_say_comes_back():
    names = listed_of("a")
    properties = json.dumps({"contentType": "text/plain", "metadata": {"k": "v"}})
    names.connection.execute("UPDATE storage_objects SET properties = ?", (properties,))
    (stored,) = names.page().items
    assert stored.properties == {"contentType": "text/plain", "metadata": {"k": "v"}}


def all_pages(names, **query):
    found, sizes, page = [], [], names.page(**query)
    while True:
        found += [stored.name for stored in page.items] + page.prefixes
        sizes.append(len(page))
        if page.next_start is None:
            return found, sizes
        page = names.page(**query, start=page.next_start, start_generation=page.next_generation)


@pytest.mark.parametrize("delimiter", ["", "/"])
def test_a_page_does_not_look_for_ever_for_what_a_glob_matches(monkeypatch, delimiter):
    monkeypatch.setattr("localsim.rules.objects.listing.MAX_REJECTED", 10)
    names = listed_of(*(f"{number:02}/x" for number in range(35)), "a/b", "a/c")
    glob = "[!0-9]**"
    found, sizes = all_pages(names, match_glob=glob, delimiter=delimiter)
    assert found == (["a/"] if delimiter else ["a/b", "a/c"])
    assert sizes == [0, 0, 0, len(found)]


def test_a_page_ends_where_a_glob_has_cost_too_much(monkeypatch):
    monkeypatch.setattr("localsim.rules.objects.listing.MAX_EFFORT", 10)
    names = listed_of("aaaa", "bbbb", "cccc", "dddQ")
    found, sizes = all_pages(names, match_glob="**????Q,dddQ".join("{}"))
    assert (found, sizes) == (["dddQ"], [0, 0, 1])
