"""What a job's requests met, by its record."""

from dataclasses import replace

from tpuctl.jobs.policy.capacity_events import capacity_events
from tpuctl.models.capacity.capacity_event import RefusalCause, request_key
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    JobRecord,
    JobSpec,
    Resources,
    Restart,
)
from tpuctl.models.network_cause import NetworkCause
from tpuctl.models.search import Candidate

SPEC = JobSpec("digits", "python3 train.py", resources=Resources("v5litepod-16", use_spot=True))
ASKED = Attempt(
    1, "us-west4-a", "digits-1-a1", AttemptState.ENDED, owned=True,
    queued_resource="digits-1-a1", requested_s=100.0, accepted_s=101.0,
)  # fmt: skip
READY = replace(ASKED, chosen_s=160.0, ready_s=170.0)
REFUSED = replace(ASKED, ended_s=130.0, outcome=AttemptOutcome.STOCKOUT)
OTHER = Candidate("digits-1-a1c2", "us-east1-c", "v5litepod-8", requested_s=100.0)


def told(*attempts: Attempt, causes=None, **changes) -> list[tuple]:
    """Kind, time, zone, cause and duration of each event."""
    record = JobRecord(
        "digits-1", SPEC, "ada", 99.0, "us-west4-a", "v5litepod-16", attempts=attempts, **changes
    )
    return [
        (event.kind.value, event.time_s, event.zone, event.cause, event.after_s)
        for event in capacity_events(record, causes or {})
    ]


def test_a_grant_says_how_long_it_took():
    assert told(READY) == [("granted", 160.0, "us-west4-a", None, 60.0)]


def test_a_preemption_says_how_long_the_slice_lived_over_all_its_attempts():
    first = replace(READY, ended_s=300.0, outcome=AttemptOutcome.FAILED)
    second = Attempt(
        2, "us-west4-a", "digits-1-a1", AttemptState.ENDED, owned=True,
        queued_resource="digits-1-a1", ready_s=301.0, ended_s=1170.0,
        outcome=AttemptOutcome.PREEMPTED,
    )  # fmt: skip
    assert told(first, second) == [
        ("granted", 160.0, "us-west4-a", None, 60.0),
        ("preempted", 1170.0, "us-west4-a", None, 1000.0),
    ]


def test_a_slice_that_somebody_deleted_was_not_preempted():
    deleted = replace(READY, ended_s=300.0, outcome=AttemptOutcome.PREEMPTED)
    assert [each[0] for each in told(deleted, ended_by_attempt=1)] == ["granted"]
    once = replace(SPEC, restart=Restart(preemption=False))
    record = JobRecord(
        "digits-1", once, "ada", 99.0, "us-west4-a", "v5litepod-16",
        attempts=(deleted,), ended_by_attempt=1,
    )  # fmt: skip
    assert [event.kind.value for event in capacity_events(record)] == ["granted", "preempted"]


def test_refusals_have_the_cause_that_the_record_tells():
    limit = {"outcome": AttemptOutcome.REFUSED, "refusal": NetworkCause.ADDRESS_LIMIT.value}
    usage = {"outcome": AttemptOutcome.REFUSED, "refusal": "usage"}
    causes = [
        told(replace(REFUSED, **changes))
        for changes in (
            {}, {"outcome": AttemptOutcome.BLOCKED}, {"outcome": AttemptOutcome.TIMEOUT}, limit,
            usage, {"outcome": AttemptOutcome.CANCELLED},
            {"outcome": AttemptOutcome.TIMEOUT, "accepted_s": None},
        )
    ]  # fmt: skip
    assert [each[0][3] if each else None for each in causes] == [
        "stockout", "addresses", "stockout", "addresses", None, None, None,
    ]  # fmt: skip


def test_what_a_supervisor_saw_is_more_than_the_record_tells():
    causes = {"digits-1-a1": RefusalCause.QUOTA}
    assert told(REFUSED, causes=causes)[0][3] == "quota"


def test_requests_beside_the_one_that_led():
    granted = replace(OTHER, active_s=150.0, withdrawn_s=155.0)
    refused = replace(OTHER, name="digits-1-a1c3", withdrawn_s=180.0, is_stockout=True)
    not_needed = replace(OTHER, name="digits-1-a1c4", withdrawn_s=180.0)
    waiting = replace(OTHER, name="digits-1-a1c5")
    found = told(replace(READY, others=(granted, refused, not_needed, waiting)))
    assert found[1:] == [
        ("granted", 150.0, "us-east1-c", None, 50.0),
        ("refused", 180.0, "us-east1-c", "stockout", None),
    ]


def test_a_slice_that_was_named_says_nothing():
    assert told(replace(READY, owned=False, queued_resource=None)) == []


def test_the_key_is_that_of_the_request_whoever_sees_it():
    record = JobRecord(
        "digits-1", SPEC, "ada", 99.0, "us-west4-a", "v5litepod-16", attempts=(READY,)
    )
    (event,) = capacity_events(record)
    assert event.key == request_key("us-west4-a", "digits-1-a1")
    assert "digits" not in event.key
