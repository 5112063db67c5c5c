"""Gangs that are too large, or too many, for every day: `pytest -m soak tests/soak`."""

import pytest
from system.stories.gang_cloud import gangs, is_judged, is_running

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("namespaces"),
]
PATIENCE_S = 600.0
FAILS = 'if [ "$TPUCTL_WORKER_ID" = 13 ]; then sleep 1; exit 42; fi; exec sleep 600'


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with gangs(tmp_path_factory.mktemp("gangs"), "namespace") as found:
        yield found


def test_a_job_of_16_workers_succeeds_on_all_of_them(here):
    here.submit("sixteen", 16, "echo worker $TPUCTL_WORKER_ID of $TPUCTL_WORKER_COUNT")
    found = here.until("sixteen", lambda job: job.is_settled, PATIENCE_S)
    assert found.state == "SUCCEEDED", found.why
    assert sorted(line["text"] for line in here.lines("sixteen")) == sorted(
        f"worker {number} of 16" for number in range(16)
    )


def test_one_of_16_that_fails_is_named(here):
    here.submit("one-of-many", 16, FAILS)
    found = here.until("one-of-many", lambda job: job.is_settled, PATIENCE_S)
    failed = found.attempts[0]
    assert (failed.outcome, failed.first_worker) == ("failed", 13), failed.reason


@pytest.mark.parametrize("fault", ["killed", "hangs", "cut off"])
def test_one_of_16_that_is_lost_is_named(here, fault):
    name = fault.replace(" ", "-")
    job = here.submit(name, 16, "exec sleep 600")
    here.until(name, is_running, PATIENCE_S)
    here.fault(f"worker {job}-a1/13: {fault}")
    lost = here.until(name, lambda found: is_judged(found, 1), PATIENCE_S).attempts[0]
    assert (lost.outcome, lost.first_worker) == ("lost", 13), lost.reason
    assert here.tpuctl("job", "cancel", job).code == 0


def test_20_jobs_at_once_all_end_well(here):
    names = [f"many-{number}" for number in range(20)]
    for name in names:
        here.submit(name, 1, "echo step=1; sleep 2; echo step=2")
    found = [here.until(name, lambda job: job.is_settled, PATIENCE_S) for name in names]
    assert {job.state for job in found} == {"SUCCEEDED"}
    assert [job.attempt.last_step for job in found] == [2] * 20
    assert here.tpuctl("node", "list", "--zone", "-").out.count("many-") == 0


def test_a_job_of_two_slices_that_loses_one_goes_on_with_two_new_ones(here):
    run = "echo slice $TPUCTL_SLICE_ID worker $TPUCTL_WORKER_ID; "
    run += '[ "$TPUCTL_ATTEMPT" = 1 ] || exit 0; exec sleep 600'
    job = here.submit("multislice", 2, run, resources={"num_slices": 2, "use_spot": True})
    attempt = here.until("multislice", is_running, PATIENCE_S).attempt
    assert attempt.worker_count == 4
    lost = attempt.nodes[1]
    done = here.tpuctl("local", "preempt", lost, "--zone", attempt.zone, "--no-notice")
    assert done.code == 0, done.err
    found = here.until("multislice", lambda each: each.is_settled, PATIENCE_S)
    assert found.state == "SUCCEEDED", found.why
    assert [each.outcome for each in found.attempts] == ["preempted", "succeeded"]
    assert not set(attempt.nodes) & set(found.attempt.nodes)
    second = [line["text"] for line in here.lines("multislice", "--attempt", "2")]
    assert sorted(second) == [f"slice {worker // 2} worker {worker}" for worker in range(4)]
    assert job not in here.tpuctl("node", "list", "--zone", "-").out
