"""Which messages are due: of each thing that happens to a job one, whoever supervises it when."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tpuctl.jobs.notifications import due_notifications
from tpuctl.jobs.policy.reconcile import reconcile
from tpuctl.jobs.record.job_retry import reopen_record
from tpuctl.models.job import Budget, JobRecord, JobState, Phase
from tpuctl.models.notify.notification import SendState
from tpuctl.models.notify.notify_spec import NotifyEvent, NotifyTarget, TargetKind
from unit.jobs.job_steps import ENDED, RAN, asked, job, seen
from unit.jobs.supervisor.test_histories import FATES, JOB_ID, PLACES, SPECS, ZONES, Sky

EVERYTHING = NotifyTarget(TargetKind.WEBHOOK, "https://ops.example.com", tuple(NotifyEvent))
FAILED = ({**ENDED, "exit_status": 1}, {**ENDED, "exit_status": None, "stopped": True})
MANY = 250


def stepped(record: JobRecord, look) -> JobRecord:
    """The record that a controller writes after one look."""
    after = reconcile(record, look).record
    return due_notifications.with_due_notifications(record, after, look.now_s)


def told(record: JobRecord, *story) -> JobRecord:
    for look in story:
        record = stepped(record, look)
    return record


def events(record: JobRecord) -> list[tuple[str, int]]:
    return [(each.event, each.attempt) for each in record.notifications]


def test_a_job_that_fails_tells_of_its_start_and_its_failure():
    failing = (seen(9.0, *FAILED), seen(10.0, *FAILED))
    record = told(job(notify=(EVERYTHING,)), *RAN, *failing)
    assert events(record) == [("started", 1), ("failed", 1)]
    assert [each.notification_id for each in record.notifications] == [
        "digits-a1b2c3-started-1", "digits-a1b2c3-failed-1",
    ]  # fmt: skip
    assert record.notifications[1].text == "worker 0: the program ended with status 1"


def test_a_preempted_job_tells_of_that_and_of_going_on():
    gone = asked(5.0, a1="SUSPENDED")
    lost = replace(gone, node="PREEMPTED", node_checked_s=5.0)
    record = told(job(notify=(EVERYTHING,)), *RAN, lost)
    assert events(record) == [("started", 1), ("preempted", 1)]
    prepared = {"phase": Phase.PREPARED}
    again = [
        asked(6.0, a1="ABSENT"),
        asked(7.0, a1="ABSENT", a2="ABSENT"),
        replace(seen(8.0), requests={"digits-a1b2c3-a2": "ACTIVE"}),
        replace(seen(9.0, prepared, prepared), requests={"digits-a1b2c3-a2": "ACTIVE"}),
    ]
    assert events(told(record, *again))[2:] == [("resumed", 2)]


def test_a_target_hears_of_its_events_alone():
    quiet = replace(EVERYTHING, events=(NotifyEvent.FAILED,))
    record = told(job(notify=(quiet, EVERYTHING)), *RAN)
    (started,) = record.notifications
    assert [each.target for each in started.sendings] == [1]
    assert told(job(notify=(quiet,)), *RAN).notifications == ()


def test_a_budget_that_is_used_up_is_told_once_before_the_end():
    spec = {"notify": (EVERYTHING,), "budget": Budget(hours=1)}
    running = {"phase": Phase.RUNNING}
    late = [seen(5000.0 + number, running, running) for number in range(3)]
    record = told(job(**spec), *RAN, *late)
    assert events(record) == [("started", 1), ("over-budget", 1)]
    assert record.notifications[1].text == "budget: 1 h of slices are used up"


def test_a_job_that_is_tried_again_by_hand_and_fails_again_has_another_id():
    ended = replace(
        job(notify=(EVERYTHING,)), state=JobState.FAILED, ended_s=1.0, why="no v5e within 9 s"
    )
    first = due_notifications.with_due_notifications(job(notify=(EVERYTHING,)), ended, 1.0)
    queued = reopen_record(first, 2.0)
    again = replace(queued, state=JobState.FAILED, why="no v5e within 9 s")
    second = due_notifications.with_due_notifications(queued, again, 3.0)
    assert [each.notification_id for each in second.notifications] == [
        "digits-a1b2c3-failed-0", "digits-a1b2c3-failed-0.2",
    ]  # fmt: skip


def test_some_minutes_without_a_supervisor_are_told():
    record = told(job(notify=(EVERYTHING,)), *RAN)
    assert list(due_notifications.unsupervised_notification(record, 100.0, 399.0)) == []
    (cause,) = due_notifications.unsupervised_notification(record, 0.0, 7200.0 * 12)
    assert cause.text == "from 01 Jan 00:00Z on, for 24.0 h"


def test_idle_chips_are_told_once_an_attempt():
    record = told(job(notify=(EVERYTHING,)), *RAN)
    for _ in range(2):
        causes = due_notifications.idle_notification(
            record, "no process has held those of worker 0"
        )
        record = due_notifications.with_notifications(record, causes, 700.0)
    assert events(record) == [("started", 1), ("idle", 1)]


def test_of_many_messages_the_oldest_that_are_done_with_are_forgotten():
    record = job(notify=(EVERYTHING,))
    for number in range(MANY):
        cause = due_notifications.NotificationCause(NotifyEvent.PREEMPTED, number)
        record = due_notifications.with_notifications(record, iter([cause]), 1.0)
        kept = record.notifications
        if number:  # the first one stays on its way
            sent = replace(kept[-1].sendings[0], state=SendState.SENT)
            kept = (*kept[:-1], replace(kept[-1], sendings=(sent,)))
        record = replace(record, notifications=kept)
    numbers = [each.attempt for each in record.notifications]
    assert numbers[0] == 0
    assert numbers[-1] == MANY - 1
    assert len(numbers) <= due_notifications.MOST_KEPT + 2


def lived(record: JobRecord, fates: list[str]) -> JobRecord:
    """The record at the end of a history, after which there is plenty of everything."""
    sky = Sky()
    for fate in [*fates, *["nothing"] * 200]:
        if record.is_settled:
            break
        if fate == "nothing":
            sky.settle()
            sky.now_s += 60.0
        elif fate == "cancel" and not record.is_ended:
            record = replace(record, cancel_requested_s=sky.now_s)
        sky.happen(fate, record)
        look = sky.observed(record)
        step = reconcile(record, look)
        if fate == "supervisor dies":
            continue  # before its write: nothing of the step is left
        record = due_notifications.with_due_notifications(record, step.record, look.now_s)
        for action in step.actions:
            sky.act(action)
    return record


def wanted(record: JobRecord) -> list[tuple[str, int]]:
    """What follows from the attempts of a job that has ended."""
    started = [each.number for each in record.attempts if each.started_s is not None]
    preempted = [each.number for each in record.attempts if each.outcome == "preempted"]
    return sorted([
        *(("started" if each == started[0] else "resumed", each) for each in started),
        *(("preempted", each) for each in preempted),
        ("failed" if record.state == "FAILED" else "finished", len(record.attempts)),
    ])  # fmt: skip


@settings(max_examples=25)
@given(fates=st.lists(st.sampled_from(FATES), max_size=40), own=st.booleans(), spec=SPECS)
def test_over_any_history_each_thing_that_happens_is_told_once(fates, own, spec):
    submitted = JobRecord(
        job_id=JOB_ID, spec=replace(spec, notify=(EVERYTHING,)), owner="me", submitted_s=0.0,
        zone=ZONES[0], zones=ZONES, places=PLACES, accelerator_type="v5litepod-16",
        node=None if own else "mine",
    )  # fmt: skip
    record = lived(submitted, fates)
    assert record.is_settled
    found = events(record)
    assert sorted(each for each in found if each[0] != "over-budget") == wanted(record)
    ids = [each.notification_id for each in record.notifications]
    assert len(set(ids)) == len(ids)
    over = [each for each in found if each[0] == "over-budget"]
    assert len(over) <= 1
    assert over or not record.why.startswith("budget:")
