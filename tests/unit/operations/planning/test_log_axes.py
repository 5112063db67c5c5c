"""The numbers at the axes of a picture are plain, few enough to be read, and never none."""

import pytest

from tpuctl.operations.planning.plots.log_axes import labelled_digits, number_text


@pytest.mark.parametrize(
    ("low", "high", "digits"),
    [
        (6, 8, (1, 1.5, 2, 3, 4, 5, 7)),
        (90_000, 900_000, (1, 1.5, 2, 3, 4, 5, 7)),
        (5, 150, (1, 2, 5)),
        (0.5, 2_000, (1,)),
    ],
)
def test_a_short_axis_has_more_numbers(low, high, digits):
    assert labelled_digits(low, high) == digits


def test_numbers_are_written_out():
    assert [number_text(value) for value in (0.05, 7.5, 256, 4096, 150_000)] == [
        "0.05", "7.5", "256", "4,096", "150,000",
    ]  # fmt: skip
