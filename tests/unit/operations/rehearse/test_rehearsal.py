"""A rehearsal, with runs that are made up: which moments are tried, and what is kept of them."""

import pytest

from tpuctl.errors import UsageError
from tpuctl.models.job import JobSpec, Resources
from tpuctl.models.rehearsal.moment import Disturbance, Moment
from tpuctl.operations.rehearse.moment_choice import choose_moments
from tpuctl.operations.rehearse.rehearsal import with_offered_zones

NAMES = ("save:middle/30s", "save:middle/none", "save:marker/none", "restore/none", "worker-hangs")
MOMENTS = [Moment(name, "", Disturbance.PREEMPTION, ()) for name in NAMES]


def chosen(*only):
    """The names of the moments that are tried."""
    return [moment.name for moment in choose_moments(MOMENTS, only)]


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ((), NAMES),
        (("worker-hangs",), ["worker-hangs"]),
        (("save:middle",), ["save:middle/30s", "save:middle/none"]),
        (("save",), ["save:middle/30s", "save:middle/none", "save:marker/none"]),
        (("*/none", "worker-hangs"), ["save:middle/none", "save:marker/none", "restore/none",
                                      "worker-hangs"]),
    ],
)  # fmt: skip
def test_moments_are_named_by_name_beginning_or_pattern(only, names):
    assert chosen(*only) == list(names)


def test_a_name_that_no_moment_has_is_refused():
    with pytest.raises(UsageError) as caught:
        chosen("save:middle", "save:mid")
    assert str(caught.value) == "there is no moment 'save:mid'"
    assert caught.value.hint == f"there are: {', '.join(NAMES)}"


def zones(accelerators, *named):
    """The zones in which a rehearsal asks for a job's slices."""
    resources = Resources(accelerators=accelerators, zones=named)
    return with_offered_zones(JobSpec(name="x", run="", resources=resources)).resources.zones


def test_zones_of_the_job_stay_when_they_offer_the_type():
    assert zones("v5litepod-8", "us-west4-a") == ("us-west4-a",)
    assert zones("v5litepod-8") == ()


def test_a_type_that_is_not_near_the_bucket_is_looked_for_where_it_is():
    assert zones("v4-16") == ("us-central2-b",)
    assert zones("v4-16", "us-west4-a") == ("us-central2-b",)


def test_a_type_that_nobody_knows_is_left_to_the_submission():
    assert zones("v99-1", "us-west4-a") == ("us-west4-a",)
