"""Names that cannot be files, names that cannot be objects, names that clash."""

import pytest

from tpuctl.errors import UsageError
from tpuctl.operations.stage.plan import names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../x", "lead out"),
        ("/etc/x", "lead out"),
        ("a/../../x", "lead out"),
        ("..\\x", "backslash"),
        ("a//b", "lead out"),
        ("./a", "lead out"),
        ("a\0b", "NUL"),
        ("folder/", "ends with /"),
        ("", "ends with /"),
        ("x" * 256, "longer than 255"),
        ("deep/" + "\u00e9" * 128 + "/x", "longer than 255"),
        ("a/.tpuctl-part-1", "unfinished"),
    ],
)
def test_what_cannot_be_a_file(name, words):
    assert words in names.why_no_file(name)


@pytest.mark.parametrize(
    "name", ["%2e%2e/x", "-rf", "with space", "#1", "*", "\U0001f600", "...", "a" * 255, "a/..b"]
)
def test_what_is_only_unusual(name):
    assert names.why_no_file(name) is None


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("caf\udce9", "not UTF-8"),
        ("a\nb", "line ends"),
        ("a\rb", "line ends"),
        ("x" * 1025, "longer than 1024"),
        (".well-known/acme-challenge/x", "does not allow"),
        ("..", "does not allow"),
        ("tpuctl/parts/x", "unfinished"),
    ],
)
def test_what_cannot_be_an_object(key, words):
    assert words in names.why_no_key(key)


def test_what_can_be_an_object():
    assert names.why_no_key("x" * 1024) is None
    assert names.why_no_key("tpuctl/jobs/mine") is None


def test_a_name_that_others_need_as_a_directory():
    refused = names.directory_conflicts(["a", "a/b", "c/d/e", "c/d", "ab"])
    assert [one.name for one in refused] == ["a", "c/d"]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (["a", "A", "b"], ["a", "A"]),
        (["dir/x", "DIR/y", "z"], ["dir/x", "DIR/y"]),
        (["stra\u00dfe", "STRASSE"], ["stra\u00dfe", "STRASSE"]),
        (["a", "b"], []),
    ],
)
def test_names_that_differ_in_case_alone(listed, expected):
    assert [one.name for one in names.same_file_conflicts(listed, str.casefold)] == expected
    assert names.can_clash(listed) is bool(expected)


def test_both_forms_of_an_accent_can_clash():
    assert names.can_clash(["\u00e9", "e\u0301"])


def test_a_file_system_is_tried_out(tmp_path):
    fold = names.folding_of(str(tmp_path))
    (tmp_path / "a").touch()
    assert (fold("a") == fold("A")) is (tmp_path / "A").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("prefix", "expected"), [("", "f"), ("to/", "to/f"), ("to", "to"), ("to/g", "to/g")]
)
def test_a_single_file_is_named_as_cp_does(prefix, expected):
    assert names.single_key(prefix, "f") == expected


@pytest.mark.parametrize("url", ["s3://b/x", "gs://", "gs:///x", "b/x"])
def test_what_is_no_address(url):
    with pytest.raises(UsageError):
        names.split_url(url)
