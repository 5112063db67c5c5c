"""Globs of listings: what they match, and how Google refuses what is none."""

import pytest

from localsim.rules.objects.glob import Glob
from unit.localsim.rules.objects.object_rig import refusal

NO_CLOSING = (
    "Glob pattern character class has no closing ']' for opening '[' at index {}."
    " Either add a closing ']' or use '\\[' to match a literal '['."
)
OPEN_BRACE = (
    "Glob pattern brace expansion opening '{{' at index {} has no closing '}}'."
    " Use '\\{{' to match a literal '{{'."
)
BARE_BRACE = (
    "Glob pattern brace expansion closing '}}' at index {} has no previous opening '{{'."
    " Use '\\}}' to match a literal '}}'."
)
EMPTY_CLASS = "Glob pattern character class at index {} must have at least one character in it."


@pytest.mark.parametrize(
    ("pattern", "accepted", "rejected"),
    [
        ("a*c", ["ac", "abc"], ["a/c", "abcd"]),
        ("**/x", ["x", "a/x", "a/b/x", "/x"], ["a/xy", "ax"]),
        ("a/**/x", ["a/x", "a/b/x"], ["ax", "a/bx"]),
        ("a**/x", ["a/x", "ab/x", "a/b/x"], ["ax"]),
        ("**/{x,y}", ["x", "a/y"], ["a/z"]),
        ("a/**", ["a/", "a/b/c"], ["a", "b/a/"]),
        ("?", ["a", "é", "\U0001f600"], ["", "ab", "/"]),
        ("[a-cx]", ["a", "c", "x"], ["d", "-"]),
        ("[!a-c]", ["d"], ["a", "/"]),
        ("[^a]", ["b"], ["a"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[a\\]b]", ["]", "b"], ["\\"]),
        ("{a,b{c,d}}.x", ["a.x", "bc.x", "bd.x"], ["b.x", "a"]),
        ("{,a}b", ["b", "ab"], ["aab"]),
        ("a,b", ["a,b"], ["a", "b"]),
        ("\\*\\{", ["*{"], ["x{"]),
        ("a\\", ["a\\"], ["a"]),
    ],
)
def test_matches(pattern, accepted, rejected):
    glob = Glob(pattern)
    assert [name for name in accepted + rejected if glob.matches(name)] == accepted


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("test/[abc.jpg", NO_CLOSING.format(5)),
        ("test/{a,b.jpg", OPEN_BRACE.format(5)),
        ("test/{a,{b", OPEN_BRACE.format(8)),
        ("test/[].jpg", EMPTY_CLASS.format(5)),
        ("test/[^].jpg", EMPTY_CLASS.format(5)),
        ("test/a}.jpg", BARE_BRACE.format(6)),
        ("test/[}].jpg", BARE_BRACE.format(6)),
        ("test/{[a,b]}.jpg", NO_CLOSING.format(6)),
        ("é[abc", NO_CLOSING.format(2)),
        ("test/[ω-α].jpg", "Invalid range 'ω-α' in glob pattern character class."),
        (
            "test/a].jpg",
            "Glob pattern had closing character class ']' at index 6 without any previous opening"
            " '['. Either add an opening '[' or use '\\]' to match ']'.",
        ),
        (
            "test/[[].jpg",
            "Glob pattern character class does not support the unescaped '[' at index 6."
            " Use '\\[' to match '['.",
        ),
    ],
)
def test_refused_in_the_words_of_google(pattern, message):
    assert refusal(Glob, pattern) == (400, "invalid", message)


def test_begins_with_what_every_match_begins_with():
    assert [Glob(pattern).literal for pattern in ("a/b*", "{a}", "a", "a\\*")] == [
        "a/b",
        "",
        "a",
        "a",
    ]


def test_nested_without_end_is_refused_and_not_followed():
    assert refusal(Glob, "{" * 5000)[0] == 400


def test_many_stars_take_no_longer_than_the_name_is_long():
    # Backtracking would not end before the sun does.
    assert not Glob("*a" * 40).matches("a" * 1000 + "b")
