"""Where a job may run, and what it costs there."""

from dataclasses import replace

import pytest

from tpuctl.errors import PreconditionError, UsageError
from tpuctl.jobs.submit.placement import place_job, worst_usd_per_hour
from tpuctl.models.job import Budget, JobSpec, Resources
from tpuctl.models.node import Node
from tpuctl.models.search import Search

KIND = "v5litepod-16"


def placed(zone="us-west4-a", regions=(), node=None, budget=None, **resources):
    spec = JobSpec("digits", "true", resources=Resources(**{"accelerators": KIND, **resources}))
    return place_job(replace(spec, budget=budget or Budget()), node, zone, regions)


def node(**extra) -> Node:
    given = {"state": "READY", "provisioning": "spot", "accelerator_type": KIND, **extra}
    return Node(
        "mine", "us-west1-c", 1, given["accelerator_type"], "v2-alpha-tpuv5-lite", given["state"],
        given["provisioning"], 0.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "regions", "zones"),
    [
        ("us-west4-a", (), ("us-west4-a",)),
        ("us-west4-b", ("us-west4",), ("us-west4-b", "us-west4-a")),
        ("us-west4-a", ("us-west1",), ("us-west4-a", "us-west1-c")),
        ("us-east1-d", ("us-west1",), ("us-west1-c",)),
        ("us-west1-c", ("us-west1", "us-south1"), ("us-west1-c", "us-south1-a", "us-south1-b")),
        ("us-west4-a", ("us",), ("us-west4-a",)),
    ],
)
def test_without_a_list_it_runs_beside_its_bucket(zone, regions, zones):
    assert placed(zone, regions).zones == zones


def test_an_alternative_that_is_not_offered_near_the_bucket_is_left_out():
    found = placed(regions=("us-west4",), accelerators="v6e-16", alternatives=("v5litepod-16",))
    assert (found.accelerator_type, found.left_out) == ("v5litepod-16", ("v6e-16",))
    assert {place.accelerator_type for place in found.places} == {"v5litepod-16"}


def test_the_list_of_the_job_file_counts():
    assert placed(regions=("us-west4",), zones=("us-west1-c",)).zones == ("us-west1-c",)


@pytest.mark.parametrize("where", [{"zone": "us-central2-b"}, {"zones": ("us-central2-b",)}])
def test_where_the_type_is_not_offered_nobody_asks_for_it(where):
    with pytest.raises(UsageError, match="v5litepod-16 is not offered in us-central2-b") as caught:
        placed(**where)
    assert caught.value.hint.startswith("it is in: us-central1-a, ")


@pytest.mark.parametrize(
    ("resources", "usd"),
    [
        ({}, 19.2),
        ({"use_spot": True}, 9.712),
        ({"use_spot": True, "num_slices": 3}, 3 * 9.712),
        ({"use_spot": True, "zones": ("us-west1-c", "us-west4-a")}, 9.712),
        ({"zones": ("asia-east1-a", "us-west1-c")}, 19.2),
        ({"zones": ("asia-east1-a",)}, None),
    ],
)
def test_the_price_is_that_of_all_slices_where_they_cost_most(resources, usd):
    assert placed(**resources).usd_per_hour == (usd and pytest.approx(usd))


def test_a_slice_that_exists_is_where_it_is_and_costs_what_it_costs():
    found = placed(node=node(), zones=("us-west4-a",))
    assert (found.zones, found.accelerator_type) == (("us-west1-c",), KIND)
    assert found.usd_per_hour == pytest.approx(3.92)
    assert placed(node=node(provisioning="reserved")).usd_per_hour is None


@pytest.mark.parametrize(
    ("given", "resources", "kind", "message"),
    [
        ({"state": "CREATING"}, {}, PreconditionError, "node 'mine' is CREATING, not READY"),
        (
            {"accelerator_type": "v5litepod-64"},
            {},
            PreconditionError,
            "node 'mine' is a v5litepod-64, and the job asks for v5litepod-16",
        ),
        ({}, {"num_slices": 2}, UsageError, "node 'mine' is one slice, and the job asks for 2"),
    ],
)
def test_a_slice_that_does_not_fit_is_refused(given, resources, kind, message):
    with pytest.raises(kind) as caught:
        placed(node=node(**given), **resources)
    assert str(caught.value) == message


def test_every_type_is_asked_for_where_it_is_offered_and_what_that_costs_at_worst_is_known():
    found = placed(
        regions=("us-west4",), alternatives=("v6e-16",), num_slices=2,
        zones=("us-west4-a", "us-west1-c", "europe-west4-a"),
    )  # fmt: skip
    assert [(each.accelerator_type, each.zone, each.distance) for each in found.places] == [
        (KIND, "us-west4-a", 0), (KIND, "us-west1-c", 1), (KIND, "europe-west4-a", 2),
        ("v6e-16", "us-west1-c", 1), ("v6e-16", "europe-west4-a", 2),
    ]  # fmt: skip
    assert [each.usd_per_hour for each in found.places] == [
        pytest.approx(2 * usd) for usd in (19.2, 19.2, 24.96, 43.2, 47.52)
    ]
    assert found.usd_per_hour == pytest.approx(95.04)
    for at_once, usd in ((1, 95.04), (2, 181.44), (9, 308.16)):
        assert worst_usd_per_hour(found.places, Search(at_once)) == pytest.approx(usd)
    assert worst_usd_per_hour(found.places, Search(2, 100.0)) == 100.0


@pytest.mark.parametrize(
    ("region", "distances"),
    [("us", [1, 2]), ("eu", [2, 1]), ("northamerica-northeast1", [1, 2]), ("asia-east1", [2, 2])],
)
def test_a_zone_of_the_buckets_continent_is_nearer(region, distances):
    found = placed(regions=(region,), zones=("us-west4-a", "europe-west4-b"))
    assert [each.distance for each in found.places] == distances


def test_a_budget_in_dollars_needs_a_price():
    assert placed(budget=Budget(usd=5)).usd_per_hour == 19.2
    with pytest.raises(UsageError, match=r"budget\.usd: no list price of v5litepod-16 in asia"):
        placed(zones=("asia-east1-a",), budget=Budget(usd=5))
