"""Alignment makes one point of each period; periods end with the interval."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.services.other_apis.series_points import PointType, SeriesPoint, align

GAUGE = PointType("GAUGE", "INT64", "By")
DELTA = PointType("DELTA", "INT64", "By")
POINTS = [SeriesPoint(end_s - 60, end_s, end_s / 60) for end_s in (60.0, 120.0, 240.0, 300.0)]


@pytest.mark.parametrize(
    ("kind", "aligner", "wanted", "ends"),
    [
        (GAUGE, "ALIGN_NONE", GAUGE, {60: 1, 120: 2, 240: 4, 300: 5}),
        (GAUGE, "ALIGN_MEAN", PointType("GAUGE", "DOUBLE", "By"), {60: 1, 180: 2, 300: 4.5}),
        (GAUGE, "ALIGN_MAX", GAUGE, {60: 1, 180: 2, 300: 5}),
        (GAUGE, "ALIGN_COUNT", PointType("GAUGE", "INT64", "1"), {60: 1, 180: 1, 300: 2}),
        (DELTA, "ALIGN_DELTA", DELTA, {60: 1, 180: 2, 300: 9}),
        (
            DELTA,
            "ALIGN_RATE",
            PointType("GAUGE", "DOUBLE", "By/s"),
            {60: 1 / 120, 180: 2 / 120, 300: 9 / 120},
        ),
    ],
)
def test_each_aligner_keeps_one_value_of_a_period(kind, aligner, wanted, ends):
    aligned, points = align(kind, POINTS, aligner, 120.0, 300.0)
    assert aligned == wanted
    assert {point.end_s: point.value for point in points} == ends


@pytest.mark.parametrize(
    ("kind", "aligner", "period_s", "code"),
    [
        (GAUGE, "ALIGN_RATE", 120.0, Code.INVALID_ARGUMENT),
        (GAUGE, "ALIGN_MEAN", 59.0, Code.INVALID_ARGUMENT),
        (GAUGE, "ALIGN_STDDEV", 60.0, Code.UNIMPLEMENTED),
    ],
)
def test_what_does_not_apply_is_refused_by_its_name(kind, aligner, period_s, code):
    with pytest.raises(CloudError, match=aligner) as refused:
        align(kind, POINTS, aligner, period_s, 300.0)
    assert refused.value.code == code
