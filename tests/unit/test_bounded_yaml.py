"""The one reader of YAML: plain values, and one line for what asks for too much."""

import pytest

from tpuctl.bounded_yaml import MAX_DEPTH, MAX_VALUES, YamlError, load_file

DEEP = 20_000
TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"
MERGED = "a0: &a0 {k: v}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 40)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * DEEP, f"{TOO_DEEP} (line 1)"),
        ("[\n" * DEEP, f"{TOO_DEEP} (line {MAX_DEPTH + 1})"),
        ("{a: [" * DEEP, f"{TOO_DEEP} (line 1)"),
        ("- " * DEEP, f"{TOO_DEEP} (line 1)"),
        ("? " * DEEP, f"{TOO_DEEP} (line 1)"),
        (
            "".join(f"{' ' * depth}a:\n" for depth in range(1000)),
            f"{TOO_DEEP} (line {MAX_DEPTH + 1})",
        ),
        (MERGED, f"has more than {MAX_VALUES} values, its aliases included (line 6)"),
        ("a: &a [*a]", "has an alias inside the value that it stands for (line 1)"),
        ("a: 2020-13-40", "has a value that cannot be read: month must be in 1..12"),
        ("a: !!float ''", "has a value that cannot be read: string index out of range"),
    ],
)
def test_what_asks_for_too_much_is_one_line(tmp_path, text, message):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(YamlError) as caught:
        load_file(path)
    assert str(caught.value).removesuffix(", not 13") == message  # which Python 3.14 adds


def test_plain_values_aliases_and_nesting_within_the_bounds(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("base: &base {a: 1}\nboth: {<<: *base, b: 2}\n")
    assert load_file(path) == {"base": {"a": 1}, "both": {"a": 1, "b": 2}}
    path.write_text("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    value = load_file(path)
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []
