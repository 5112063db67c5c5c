"""`tpuctl job wait`, `cancel` and `retry`: what they change, what they say, how they end."""

from dataclasses import replace

import pytest

from client.cli.job.job_records import T, attempt, job, put, store_of
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.models.job import AttemptState, Checkpoints, JobState
from tpuctl.operations.jobs import supervision


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


@pytest.fixture(autouse=True)
def supervised(monkeypatch) -> list[str]:
    """Where a supervisor would have been started: none is, in these tests."""
    started: list[str] = []
    monkeypatch.setattr(
        supervision, "start_supervisor", lambda runtime: started.append(runtime.context.name) or ()
    )
    return started


def stored(store, job_id: str = "digits-1"):
    return record_store.load(store, job_id).record


def test_retry_opens_a_failed_job_again_and_sees_to_a_supervisor(tpuctl, store, supervised):
    put(store, job(attempts=(attempt(),), fence=7))
    result = tpuctl("job", "retry", "digits-1", "-o", "json")
    assert result.code == 0
    assert result.json[0]["state"] == "QUEUED"
    assert "job digits-1 starts again: tpuctl job logs -f digits-1" in result.err
    now = stored(store)
    assert (now.state, now.ended_s, now.retried_after, now.fence) == (JobState.QUEUED, None, 1, 8)
    held = lease.load_lease(store, "digits-1")
    assert held is not None
    assert (held.holder, held.fence) == ("", 8)
    assert supervised == ["local"]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (JobState.RUNNING, 12), (JobState.QUEUED, 12), (JobState.SUCCEEDED, 12),
        (JobState.FAILED, 0), (JobState.CANCELLED, 0),
    ],
)  # fmt: skip
def test_only_a_job_that_ended_without_success_can_be_retried(tpuctl, store, state, code):
    put(store, job(state=state))
    assert tpuctl("job", "retry", "digits-1").code == code


def test_what_forbids_a_retry_is_told_before_what_it_would_need(tpuctl, store):
    done = job(state=JobState.SUCCEEDED)
    put(store, replace(done, spec=replace(done.spec, secrets={"T": "env:NOT_SET_ANYWHERE"})))
    assert tpuctl("job", "retry", "digits-1").err.splitlines() == [
        "error: job 'digits-1' has succeeded: there is nothing to try again",
        "hint: to run it once more, submit its file: tpuctl job submit FILE",
    ]


def test_retry_of_a_job_whose_slice_still_goes_says_what_to_wait_for(tpuctl, store):
    put(store, job(attempts=(attempt(deleted_s=None),)))
    result = tpuctl("job", "retry", "digits-1")
    assert result.code == 12
    assert result.err.splitlines()[-1] == "hint: run: tpuctl job wait digits-1"
    assert stored(store).state == JobState.FAILED


def test_retry_beside_a_job_with_the_same_checkpoints_is_refused(tpuctl, store):
    kept = Checkpoints("gs://local-bucket/runs/digits")
    for job_id, state in (("digits-1", JobState.FAILED), ("other-2", JobState.RUNNING)):
        found = job(job_id, state)
        put(store, replace(found, spec=replace(found.spec, checkpoints=kept)))
    result = tpuctl("job", "retry", "digits-1")
    assert (result.code, result.out) == (11, "")
    assert "other-2" in result.err
    assert stored(store).state == JobState.FAILED


def test_somebody_elses_job_needs_a_supervisor_that_accepts_them(tpuctl, store):
    put(store, job(owner="ada@lab"))
    result = tpuctl("job", "retry", "digits-1")
    assert result.code == 0
    assert result.err.splitlines()[-1] == (
        "warning: digits-1 is ada@lab's, and no supervisor looks after it; "
        "run: tpuctl supervisor run --accept ada@lab"
    )


def test_cancel_takes_several_names_and_asks_for_each_end_once(tpuctl, store, supervised):
    for job_id in ("digits-1", "other-2"):
        put(store, job(job_id, JobState.RUNNING))
    result = tpuctl("job", "cancel", "digits", "other-2", "digits-1", "-o", "name")
    assert (result.code, result.out) == (0, "digits-1\nother-2\n")
    assert "job other-2 is being cancelled: tpuctl job wait other-2\n" in result.err
    assert stored(store).cancel_requested_s
    assert stored(store, "other-2").cancel_requested_s
    assert supervised == ["local"]


def test_cancel_looks_for_every_name_before_it_changes_anything(tpuctl, store):
    put(store, job(state=JobState.RUNNING))
    assert tpuctl("job", "cancel", "digits-1", "nope").code == 10
    assert stored(store).cancel_requested_s is None


def test_cancel_of_what_has_ended_changes_nothing(tpuctl, store, supervised):
    put(store, job())
    result = tpuctl("job", "cancel", "digits-1")
    assert result.code == 0
    assert result.err == "job digits-1 has ended already, FAILED: nothing to cancel\n"
    assert (stored(store).state, supervised) == (JobState.FAILED, [])


@pytest.mark.parametrize(
    ("state", "code", "reason"),
    [(JobState.SUCCEEDED, 0, ""), (JobState.FAILED, 71, "failed"), (JobState.CANCELLED, 71, "was")],
)
def test_wait_ends_as_the_job_did(tpuctl, store, state, code, reason):
    put(store, job(state=state))
    result = tpuctl("job", "wait", "digits-1")
    assert result.code == code
    assert reason in result.err


def test_wait_says_why_and_that_nobody_looks_after_the_job(tpuctl, store):
    why = "waiting for HF_TOKEN, which this machine does not know; run: tpuctl job retry digits-1"
    put(store, job(state=JobState.WAITING, why=why))
    result = tpuctl("job", "wait", "digits-1", "--timeout", "0s")
    assert result.code == 41
    assert result.err.splitlines() == [
        f"WAITING: {why}",
        f"error: job 'digits-1' is still WAITING: {why}",
        "hint: nobody looks after it; run: tpuctl supervisor run",
    ]


def test_wait_says_what_an_ended_job_waits_for(tpuctl, store):
    gap = attempt(outcome=None, ready_s=None, started_s=None, ended_s=T, deleted_s=None)
    put(store, job(state=JobState.CANCELLED, why="cancelled", attempts=(gap,)))
    result = tpuctl("job", "wait", "digits-1", "--timeout", "0s")
    assert (result.code, result.err.splitlines()[0]) == (
        41,
        "CANCELLED: cancelled; waits until 15 Jan 08:03Z: digits-1-a1, never seen, "
        "may still appear",
    )
    seen = replace(gap, accepted_s=T)
    put(store, job("digits-2", state=JobState.CANCELLED, why="cancelled", attempts=(seen,)))
    result = tpuctl("job", "wait", "digits-2", "--timeout", "0s")
    waits = "cancelled; waits until digits-1-a1 is deleted"
    assert result.err.splitlines()[:2] == [
        f"CANCELLED: {waits}",
        f"error: job 'digits-2' is CANCELLED: {waits}",
    ]


def test_an_interrupted_wait_says_what_goes_on_and_what_ends_it(tpuctl, cloud, store):
    waiting = attempt(state=AttemptState.RUNNING, outcome=None, ended_s=None, deleted_s=None)
    put(store, job(state=JobState.RUNNING, attempts=(waiting,)))

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    result = type(tpuctl)(cloud.home, sleep=interrupt)("job", "wait", "digits-1")
    assert result.code == 130
    assert result.err.splitlines()[-1] == (
        "job digits-1 goes on at 9.71 USD/h; end it with: tpuctl job cancel digits-1"
    )


FILES = ("workdir.tar.gz", "logs/a1/w0/000000000000", "status/a1/w0", "stacks/a1/w0")


def fill(store, job_id: str) -> None:
    for name in FILES:
        store.put_if_absent(f"tpuctl/jobs/{job_id}/{name}", b"x" * 256)
    store.put_if_absent(f"tpuctl/jobs/{job_id}/steps/10/COMMIT", b"mine")
    store.put_if_absent("runs/digits/10/COMMIT", b"{}")


def test_delete_names_what_it_deletes_asks_and_leaves_checkpoints(tpuctl, store):
    put(store, job())
    fill(store, "digits-1")
    asked = tpuctl("job", "delete", "digits")
    assert (asked.code, asked.out) == (80, "")
    assert asked.err.splitlines()[0] == (
        "error: not confirmed, as stdin is not a terminal: Delete the record, logs and workdir of "
        "digits-1 (FAILED, 1.0 KiB) in gs://local-bucket in context 'local'"
    )
    assert stored(store).state == JobState.FAILED
    done = tpuctl("job", "delete", "digits", "--yes")
    assert (done.code, done.err) == (0, "deleted job digits-1: 1.0 KiB\n")
    assert [entry.key for entry in store.list("")] == [
        "runs/digits/10/COMMIT", "tpuctl/jobs/digits-1/steps/10/COMMIT",
    ]  # fmt: skip
    assert tpuctl("job", "delete", "digits-1", "--yes").code == 10


def test_a_deletion_that_was_interrupted_is_finished_by_id(tpuctl, store):
    fill(store, "digits-1")
    done = tpuctl("job", "delete", "digits-1", "--yes")
    assert (done.code, done.err) == (0, "deleted job digits-1: 1.0 KiB\n")
    assert tpuctl("job", "delete", "digits-1", "--yes").code == 10


@pytest.mark.parametrize(
    ("state", "attempts", "error", "hint"),
    [
        (JobState.RUNNING, (), "is RUNNING: only a job that has ended is deleted", "job cancel"),
        (
            JobState.FAILED,
            (attempt(deleted_s=None),),
            "is not settled: only a job that has ended is deleted",
            "job wait",
        ),
    ],
)
def test_an_open_job_is_not_deleted_nor_any_named_beside_it(
    tpuctl, store, state, attempts, error, hint
):
    put(store, job("done-1"))
    put(store, job(state=state, attempts=attempts))
    result = tpuctl("job", "delete", "done-1", "digits-1", "--yes")
    assert (result.code, result.err) == (
        12,
        f"error: job 'digits-1' {error}\nhint: run: tpuctl {hint} digits-1\n",
    )
    assert stored(store, "done-1").state == JobState.FAILED
