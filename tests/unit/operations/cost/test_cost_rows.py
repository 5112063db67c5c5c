"""The cost of slices by job, owner, label and day, with what jobs tell of lost and idle time."""

from dataclasses import replace

import pytest

from tpuctl.errors import UsageError
from tpuctl.jobs.record import record_store
from tpuctl.ledger.slice_facts import collect_facts, life_of
from tpuctl.metrics.goodput.accounting import account
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    Budget,
    JobRecord,
    JobSpec,
    JobState,
    Resources,
    Timeouts,
    WorkerReport,
)
from tpuctl.models.money.price_book import PriceBook
from tpuctl.models.search import Candidate
from tpuctl.operations.cost.cost_history import CostHistory
from tpuctl.operations.cost.cost_rows import CostQuestion, check_group, cost_report, daily_usd
from tpuctl.operations.cost.forecast import seconds_left
from tpuctl.operations.cost.job_accounts import account_of_job, keep_jobs, read_jobs, uses_by_node
from tpuctl.operations.cost.job_facts import KnownNodes, facts_of_job
from tpuctl.operations.slices import spending
from tpuctl.store import open_store
from unit.money.histories import DEMAND_4, ZONE, at, delete, labels, ready, seen, slice_

SPOT = 9.712


def attempt(number, begin, end=None, **more):
    ends = {} if end is None else {"ended_s": at(end), "stopping_s": at(end)}
    fields = {
        "state": AttemptState.RUNNING if end is None else AttemptState.ENDED,
        "owned": True,
        "node_ids": (number,),
        "requested_s": at(begin - 0.1),
        "provisioning_s": at(begin - 0.1),
        "ready_s": at(begin),
        "started_s": at(begin),
        **ends,
        **more,
    }
    return Attempt(number, ZONE, f"digits-a{number}", **fields)


PREEMPTED = attempt(1, 1, 3, outcome=AttemptOutcome.PREEMPTED, deleted_s=at(3.1), last_step=100)
SECOND = attempt(2, 3.5, resume_step=50, last_step=60)


def job(*attempts, job_id="digits", owner="ada@lab", **more):
    fields = {"state": JobState.RUNNING, **more}
    spec = JobSpec("digits", "true", resources=Resources("v5litepod-16", use_spot=True))
    spec = replace(spec, **fields.pop("spec", {}))
    return JobRecord(
        job_id, spec, owner, at(0.5), ZONE, "v5litepod-16", attempts=attempts, **fields
    )


def history(facts, *jobs, now=5.0):
    nodes = KnownNodes(facts_.identity for facts_ in collect_facts(facts).values())
    told = [*facts, *(fact for each in jobs for fact in facts_of_job(each, nodes))]
    costs = [account_of_job(each, 1, at(now)) for each in jobs]
    return CostHistory(
        at(now),
        [life_of(each, at(now)) for each in collect_facts(told).values()],
        {each.job_id: each for each in costs},
        uses_by_node(costs),
    )


def report(found, group_by="job", since=0.0, until=720.0):
    return cost_report(found, PriceBook(), CostQuestion(at(since), at(until), group_by))


def test_a_job_costs_what_its_history_says_and_counts_once_with_the_api():
    record = job(PREEMPTED, SECOND)
    (row,) = report(history([], record)).rows
    assert (row.group, row.hours, row.slices, row.is_estimate) == ("digits", 3.5, 2, True)
    assert row.usd == pytest.approx(3.5 * SPOT)
    assert row.usd == pytest.approx(spending.spending_of(record, at(5)).usd)
    # The API has told of the first slice, too: it is the same one by its id, and exact now.
    api = [slice_("1", name="digits-a1", created=0.9), ready(0.95, "1"), delete(3.05, "1")]
    (row,) = report(history(api, record)).rows
    assert (row.slices, round(row.hours, 3)) == (2, round((3 - 0.95) + 1.5, 3))


def test_what_preemptions_lost_and_what_was_idle_is_what_goodput_says():
    ended = attempt(2, 3.5, 4.5, resume_step=50, outcome=AttemptOutcome.SUCCEEDED)
    record = job(PREEMPTED, ended, state=JobState.SUCCEEDED, ended_s=at(4.5))
    record = replace(record, attempts=(PREEMPTED, replace(ended, deleted_s=at(5))))
    (row,) = report(history([], record)).rows
    parts = {each.part: each.usd for each in account(*spending.history_of(record, at(5))).parts}
    # Half of the steps of two hours are made again; half an hour passes until the deletion.
    assert row.usd_lost == pytest.approx(SPOT)
    assert row.usd_lost == pytest.approx(parts["lost"])
    assert row.usd_idle == pytest.approx(0.5 * SPOT)
    assert row.usd_forecast == 0.0


def test_a_slice_that_two_jobs_used_is_divided_among_them():
    facts = [slice_(kind=DEMAND_4), ready(0), seen(9)]
    mine = {"owned": False, "node_ids": (7,), "outcome": AttemptOutcome.SUCCEEDED}
    first = job(attempt(1, 1, 3, **mine), job_id="a", state=JobState.SUCCEEDED, ended_s=at(3))
    second = job(
        attempt(1, 4, 8, **mine), job_id="b", owner="ben@lab", state=JobState.SUCCEEDED,
        ended_s=at(8),
    )  # fmt: skip
    found = report(history(facts, first, second, now=9), "job")
    assert {row.group: row.hours for row in found.rows} == {"a": 2, "b": 4, "-": 3}
    assert (found.total.hours, found.total.slices) == (9, 1)
    owners = report(history(facts, first, second, now=9), "owner").rows
    assert {row.group: row.hours for row in owners} == {"ada@lab": 2, "ben@lab": 4, "-": 3}


def test_a_request_that_was_active_and_lost_is_paid_for():
    other = Candidate(
        "digits-a1-b", ZONE, "v5litepod-16", active_s=at(1), withdrawn_s=at(1), deleted_s=at(1.5)
    )
    (row,) = report(history([], job(replace(SECOND, others=(other,))))).rows
    assert (row.slices, row.hours) == (2, 2.0)


def test_groups_by_label_day_zone_provisioning_and_slice():
    facts = [
        *(slice_(), ready(20), delete(30), labels(0, team="a"), labels(26, team="b")),
        *(slice_("8", DEMAND_4, name="n2"), ready(1, "8"), delete(2, "8")),
    ]
    found = history(facts, now=40)
    assert {r.group: r.hours for r in report(found, "label:team").rows} == {
        "a": 6, "b": 4, "-": 1,
    }  # fmt: skip
    assert [(r.group, r.hours) for r in report(found, "day").rows] == [
        ("2026-11-01", 5), ("2026-11-02", 6),
    ]  # fmt: skip
    assert [r.group for r in report(found, "slice").rows] == [f"n1 {ZONE}", f"n2 {ZONE}"]
    assert [r.group for r in report(found, "provisioning").rows] == ["spot", "on-demand"]
    assert [r.group for r in report(found, "zone").rows] == [ZONE]
    days = daily_usd(found, PriceBook(), CostQuestion(at(0), at(40), "provisioning"))
    assert {key: [*each.items()] for key, each in days.items()} == {
        "spot": [("2026-11-01", pytest.approx(38.848)), ("2026-11-02", pytest.approx(58.272))],
        "on-demand": [("2026-11-01", pytest.approx(4.8))],
    }
    check_group("label:team")
    with pytest.raises(UsageError):
        check_group("label:")


def test_what_has_no_price_is_in_no_sum():
    facts = [slice_(kind=("v5litepod-16", "reserved")), ready(1), delete(3)]
    found = report(history(facts))
    assert (found.total.usd, found.total.usd_least, found.total.unpriced_hours) == (None, None, 2.0)
    assert found.total.usd_on_demand == pytest.approx(38.4)


@pytest.mark.parametrize(
    ("spec", "hours"),
    [
        ({}, None),
        ({"timeouts": Timeouts(run_s=7200.0)}, 0.5),
        ({"budget": Budget(hours=6.0)}, 2.5),
        ({"budget": Budget(usd=SPOT * 4)}, 0.5),
        ({"timeouts": Timeouts(run_s=7200.0), "budget": Budget(hours=3.75)}, 0.25),
        ({"budget": Budget(hours=1.0)}, 0.0),
    ],
)
def test_a_running_job_costs_at_most_what_its_limits_leave(spec, hours):
    record = job(PREEMPTED, SECOND, spec=spec)
    left_s = seconds_left(record, at(5), SPOT)
    assert (left_s and round(left_s / 3600, 6)) == hours
    forecast = report(history([seen(4.9, "READY", "2")], record)).rows[0].usd_forecast
    assert forecast == (None if hours is None else pytest.approx(hours * SPOT))


def test_the_steps_that_a_program_still_has_to_make_are_a_limit():
    worker = WorkerReport(0, metrics={"steps": 160.0})
    steps = {"51": 60.0, "60": 600.0}
    record = job(PREEMPTED, replace(SECOND, step_times=steps, workers=(worker,)))
    assert seconds_left(record, at(5), SPOT) == 100 * 60.0


def test_settled_jobs_are_read_once(tmp_path):
    store, home = open_store(str(tmp_path / "b")), tmp_path / "home"
    ended = attempt(1, 1, 3, outcome=AttemptOutcome.SUCCEEDED, deleted_s=at(3.1))
    settled = job(ended, state=JobState.SUCCEEDED, ended_s=at(3))
    for record in (settled, job(PREEMPTED, SECOND, job_id="open")):
        record_store.create(store, record)
    store.put_if_absent("tpuctl/records/torn", b"{")
    errors = []
    first = read_jobs(store, home, at(5), errors.append)
    keep_jobs(home, store.url, first)
    again = {each.job_id: each for each in read_jobs(store, home, at(5), errors.append)}
    assert len(errors) == 2
    assert {each.job_id: each.record is None for each in again.values()} == {
        "digits": True,
        "open": False,
    }
    (kept,) = [each for each in first if each.job_id == "digits"]
    assert again["digits"] == kept._replace(record=None)
