"""What jobs remember of zones for each other, and what is left of quota."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tpuctl.api.service_usage import tpu_limits
from tpuctl.api.tpu.rest import Reply
from tpuctl.errors import PermissionDeniedError, TransientError
from tpuctl.jobs import remaining_quota
from tpuctl.jobs.policy.actions import RecordStockout
from tpuctl.jobs.slices import zone_health
from tpuctl.models.job import Resources
from tpuctl.models.node import ListedNode
from tpuctl.models.queued_resource import QueuedResource
from tpuctl.store import open_store
from unit.jobs.job_steps import job

ZONE, OTHER, KIND = "us-west4-a", "us-west4-b", "v5litepod-16"
JOB = replace(job(), zones=(ZONE, OTHER))
SPOT = replace(JOB, spec=replace(JOB.spec, resources=Resources("v5litepod-16", use_spot=True)))


def backends(store, **clients):
    known = {"quota": None, "addresses": None, "check_limit": None, **clients}
    return SimpleNamespace(store=store, **known)


@pytest.fixture
def sky_log(tmp_path):
    return SimpleNamespace(
        store=open_store(str(tmp_path)), quota=None, addresses=None, check_limit=None
    )


def test_a_stockout_is_remembered_by_zone_type_and_tier_and_decays(sky_log):
    zone_health.record_stockout(sky_log.store, JOB, RecordStockout("a1", ZONE, KIND, 100.0), 100.0)
    found = zone_health.read(sky_log, JOB, 100.0)
    assert (
        found[ZONE, KIND].out_s,
        found[ZONE, KIND].stockout_score,
        found[OTHER, KIND].out_s,
    ) == (100.0, 1.0, None)
    assert zone_health.read(sky_log, JOB, 1900.0)[ZONE, KIND].stockout_score == 0.5
    assert zone_health.read(sky_log, SPOT, 100.0)[ZONE, KIND].out_s is None
    assert [entry.key for entry in sky_log.store.list(zone_health.STOCKOUTS)] == [
        f"tpuctl/stockouts/{ZONE}/v5litepod-16"
    ]


def test_stockouts_add_up_and_the_same_one_counts_once(sky_log):
    for at_s in (100.0, 1900.0, 1900.0):
        zone_health.record_stockout(
            sky_log.store, JOB, RecordStockout("a1", ZONE, KIND, at_s), at_s
        )
    found = zone_health.read(sky_log, JOB, 1900.0)[ZONE, KIND]
    assert (found.since_s, found.out_s, found.tries, found.stockout_score) == (
        100.0,
        1900.0,
        2,
        1.5,
    )
    zone_health.record_stockout(
        sky_log.store, JOB, RecordStockout("a2", ZONE, KIND, 90000.0), 90000.0
    )
    again = zone_health.read(sky_log, JOB, 90000.0)[ZONE, KIND]
    assert (again.since_s, again.tries) == (90000.0, 1)


def test_a_zone_that_has_granted_a_slice_is_forgotten(sky_log):
    zone_health.record_stockout(sky_log.store, JOB, RecordStockout("a1", ZONE, KIND, 100.0), 100.0)
    zone_health.record_stockout(sky_log.store, JOB, RecordStockout("a2", ZONE, KIND, None), 200.0)
    assert zone_health.read(sky_log, JOB, 200.0)[ZONE, KIND].out_s is None


@pytest.mark.parametrize("data", [b"torn", b"{}", b'{"schema": 2, "out_s": 1}', b"[1]"])
def test_what_cannot_be_read_says_nothing(sky_log, data):
    sky_log.store.put_if_absent(f"tpuctl/stockouts/{ZONE}/v5litepod-16", data)
    assert zone_health.read(sky_log, JOB, 100.0)[ZONE, KIND].stockout_score == 0.0


def metric(name: str, unit: str, *buckets: dict) -> dict:
    limit = {"unit": f"1/{{project}}/{{{unit}}}", "quotaBuckets": list(buckets)}
    return {"metric": f"tpu.googleapis.com/{name}", "consumerQuotaLimits": [limit]}


def in_zone(zone: str, limit: int) -> dict:
    return {"effectiveLimit": str(limit), "dimensions": {"zone": zone}}


class Usage:
    """Service Usage with two pages, each asked for once."""

    def __init__(self, *pages: list[dict], status: int = 200) -> None:
        self.pages, self.status = pages, status

    def request(self, method, path, document=None):
        assert path.startswith("/v1beta1/projects/p/services/tpu.googleapis.com/consumerQuota")
        page = int(path.partition("pageToken=")[2] or 0)
        more = {"nextPageToken": str(page + 1)} if page + 1 < len(self.pages) else {}
        return Reply(self.status, {"metrics": self.pages[page], **more})


@pytest.mark.parametrize(
    "name",
    [
        "tpu-v5s-litepod-preemptible",
        "TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI",
    ],
)
def test_limits_are_found_under_either_name_and_usage_is_counted(name):
    default = {"effectiveLimit": "64"}
    limits = tpu_limits(
        Usage(
            [metric("tpu-v5s-litepod", "zone", in_zone(ZONE, 8))],
            [metric(name, "zone", default, in_zone(ZONE, 16))],
        ),
        "p",
    )
    preempted = ListedNode("n", ZONE, "v5litepod-16", "PREEMPTED", 4, "spot", 0)
    found = remaining_quota.quota_by_zone(
        limits, [preempted], [], (ZONE, OTHER), "v5litepod-16", "spot"
    )
    assert (found[ZONE].description(1), found[ZONE].is_enough_for(1)) == (
        "0 of 16 chips left",
        False,
    )
    assert (found[OTHER].left, found[OTHER].is_enough_for(4)) == (64, True)
    assert not found[OTHER].is_enough_for(5)
    assert found[OTHER].description(5) == "64 of 64 chips left, 80 wanted"


def test_the_narrower_of_two_limits_counts_and_suspended_requests_hold_it():
    of_region = {"effectiveLimit": "32", "dimensions": {"region": "us-west4"}}
    metrics = [
        metric("tpu-v6e", "zone", in_zone(ZONE, 64)),
        metric("tpu-v6e", "region", of_region),
    ]
    limits = tpu_limits(Usage(metrics), "p")
    held = QueuedResource(
        "q", OTHER, "SUSPENDED", "SERVICE", ("q",), "v6e-16", "v", "on-demand", 0.0
    )
    found = remaining_quota.quota_by_zone(limits, [], [held], (ZONE,), "v6e-16", "on-demand")
    assert (found[ZONE].left, found[ZONE].limit) == (16, 32)


def test_of_what_is_unlimited_or_not_told_nothing_is_said():
    limits = tpu_limits(Usage([metric("tpu-v5p", "zone", in_zone(ZONE, -1))]), "p")
    assert remaining_quota.quota_by_zone(limits, [], [], (ZONE, OTHER), "v5p-8", "on-demand") == {}
    assert remaining_quota.quota_by_zone(limits, [], [], (ZONE,), "v6e-8", "on-demand") == {}


def test_a_quota_that_cannot_be_asked_holds_nobody_up(sky_log):
    def refuse(*_):
        return tpu_limits(Usage([], status=403), "p")

    with pytest.raises(PermissionDeniedError, match="the quotas of project p: HTTP 403"):
        refuse()
    asking = backends(sky_log.store, quota=refuse)
    assert zone_health.read(asking, JOB, 1.0)[ZONE, KIND].has_quota is None


def test_the_quota_of_every_slice_of_a_job_must_be_there(sky_log):
    left = remaining_quota.QuotaLeft(left=16, limit=16, unit="chips", each=16)
    asking = SimpleNamespace(
        store=sky_log.store, quota=lambda *_: {ZONE: left}, addresses=None, check_limit=None
    )
    found = zone_health.read(asking, JOB, 1.0)
    assert (found[ZONE, KIND].has_quota, found[OTHER, KIND].has_quota) == (True, None)
    two = replace(JOB, spec=replace(JOB.spec, resources=Resources("v5litepod-16", num_slices=2)))
    assert zone_health.read(asking, two, 1.0)[ZONE, KIND].has_quota is False


@pytest.mark.parametrize(
    "bucket",
    [{"effectiveLimit": ""}, {"effectiveLimit": "many"}, {"dimensions": 5}, None],
)
def test_an_answer_that_is_not_understood_is_none(bucket):
    with pytest.raises(TransientError, match="not understood"):
        tpu_limits(Usage([metric("tpu-v5p", "zone", bucket)]), "p")
