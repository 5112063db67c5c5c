"""The contrast of the dashboard's colours, by the formula of WCAG 2.2."""

import pytest

from tpuctl.cli.web.palette import (
    BACKGROUNDS,
    COLORS,
    DRAWN,
    HEAT,
    HEAT_TEXTS,
    TEXTS,
    stylesheet,
)
from tpuctl.metrics.goodput.time_parts import TimePart

TEXT_RATIO = 4.5
DRAWN_RATIO = 3.0


def luminance(color: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    parts = [int(color[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_gives_the_known_ratios():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_text_and_drawing_can_be_told_from_its_background():
    weak = {
        (name, behind, theme): round(ratio, 2)
        for colors, behinds, least in (
            (TEXTS, BACKGROUNDS, TEXT_RATIO), (DRAWN, ["page"], DRAWN_RATIO),
        )
        for name, pair in colors.items()
        for behind in behinds
        for theme in (0, 1)
        if (ratio := contrast(pair[theme], BACKGROUNDS[behind][theme])) < least
    }  # fmt: skip
    assert weak == {}


def test_the_number_in_a_chip_can_be_read_on_every_level():
    pairs = zip(HEAT.values(), HEAT_TEXTS.values(), strict=True)
    ratios = [contrast(fill[theme], text[theme]) for fill, text in pairs for theme in (0, 1)]
    assert min(ratios) >= TEXT_RATIO


def test_every_part_of_a_jobs_time_has_a_colour():
    assert set(TimePart) <= set(DRAWN)
    assert all(stylesheet().count(f"--{name}:") == 2 for name in COLORS)
