"""One worker of a gang fails, in every way there is: what becomes of it and of the others.

Every job of a size runs at the same time: those that wait for a silence wait together.
"""

import pytest

from system.stories.gang_cloud import ZONE, gangs, has_ended, is_running

KILLS_ITSELF = """
if [ "$TPUCTL_WORKER_ID" = 1 ]; then sleep 0.2; kill -9 $$; fi
echo up; exec sleep 600
"""
STUBBORN = """
if [ "$TPUCTL_WORKER_ID" = 1 ]; then sleep 0.5; echo fails; exit 1; fi
trap '' TERM; while true; do echo alive; sleep 0.2; done
"""
OTHERS_FIRST = '[ "$TPUCTL_WORKER_ID" != 1 ] || { sleep 1; exit 42; }'
LATE_SETUP = '[ "$TPUCTL_WORKER_ID" != 1 ] || sleep 1.5; echo prepared'
WRITES = """
echo up; [ "$TPUCTL_WORKER_ID" = 1 ] || exec sleep 600
while echo 0123456789 > "$HOME/written"; do sleep 0.1; done; exit 9
"""
PROGRAMS = {
    "kills-itself": KILLS_ITSELF,
    "others-first": OTHERS_FIRST,
    "stubborn": STUBBORN,
    "killed": "echo up; exec sleep 600",
    "hangs": "echo up; exec sleep 600",
    "cut-off": "echo up; exec sleep 600",
    "refuses": "echo up; exec sleep 600",
    "late": "echo up",
    "full": WRITES,
    "contained": "echo up",
}
KEYS = {
    "late": {"setup": LATE_SETUP},
    "contained": {"image": "train:1"},
    "refuses": {"timeouts": {"setup": "8s"}},
}
BEFORE = {"refuses": "refuses ssh"}
MEANWHILE = {"killed": "killed", "hangs": "hangs", "cut-off": "cut off", "full": "disk full"}
"""Faults of worker 1."""
SIZES = (2, pytest.param(4, marks=pytest.mark.soak))


@pytest.fixture(scope="module", params=SIZES, ids="{}-workers".format)
def gang(request, tmp_path_factory, namespaces):
    """Every job of that many workers, submitted, with the faults that strike as it runs."""
    size = request.param
    with gangs(tmp_path_factory.mktemp(f"gang{size}"), "namespace") as here:
        for name, fault in BEFORE.items():
            here.fault(f"worker {name}-*/1: {fault}")
        for name, run in PROGRAMS.items():
            here.submit(name, size, run, teardown="never", **KEYS.get(name, {}))
        for name, fault in MEANWHILE.items():
            here.until(name, is_running)
            here.fault(f"worker {here.jobs[name]}-a1/1: {fault}")
        here.size = size
        yield here


@pytest.mark.parametrize(
    ("name", "how"),
    [("kills-itself", "signal 9"), ("others-first", "status 42"), ("stubborn", "status 1")],
)
def test_a_worker_that_fails_fails_the_job(gang, name, how):
    failed = gang.first_attempt(name)
    assert (failed.outcome, failed.first_worker) == ("failed", 1), failed.reason
    assert failed.reason.startswith("worker 1")
    assert how in failed.reason
    waited = gang.tpuctl("job", "wait", gang.jobs[name])
    assert waited.code == 71, waited.err


def test_an_image_is_refused_by_workers_that_cannot_run_it(gang):
    failed = gang.first_attempt("contained")
    assert failed.outcome == "failed"
    assert failed.reason.endswith("pulling the image ended with status 1"), failed.reason
    why = gang.lines("contained")[0]["text"]
    assert why.startswith("tpuctl: image train:1: "), why
    assert "no container engine" in why or "does not answer" in why


@pytest.mark.parametrize("name", ["killed", "hangs", "cut-off", "refuses"])
def test_a_worker_that_is_lost_is_named(gang, name):
    lost = gang.first_attempt(name)
    assert (lost.outcome, lost.first_worker) == ("lost", 1), lost.reason
    assert "worker 1" in lost.reason


def test_a_worker_with_a_full_disk_does_not_pass(gang):
    failed = gang.first_attempt("full")
    assert (failed.outcome, failed.first_worker) == ("failed", 1), failed.reason


OF_THIS_MACHINE = {"memory-full", "disk-full"}
"""Findings that a worker may have because the machine of the tests has them."""


@pytest.mark.parametrize(
    ("name", "finding"),
    [("kills-itself", "killed"), ("others-first", "failed"), ("full", "disk-full")],
)
def test_what_made_a_job_fail_is_explained(gang, name, finding):
    gang.until(name, lambda job: has_ended(job, 1))
    shown = gang.tpuctl("explain", gang.jobs[name], "-o", "json")
    assert shown.code == 0, shown.err
    assert [each["workers"] for each in shown.json if each["name"] == finding] == [[1]], shown.json


def test_a_job_that_went_well_has_no_finding(gang):
    gang.until("late", lambda job: job.is_ended)
    shown = gang.tpuctl("explain", gang.jobs["late"], "-o", "json")
    assert [each for each in shown.json if each["name"] not in OF_THIS_MACHINE] == []


def test_nobody_starts_before_everybody_is_prepared(gang):
    assert gang.tpuctl("job", "wait", gang.jobs["late"]).code == 0
    lines = gang.lines("late")
    times = {text: [line["time_s"] for line in lines if line["text"] == text]
             for text in ("prepared", "up")}  # fmt: skip
    assert [len(times[text]) for text in ("prepared", "up")] == [gang.size, gang.size]
    assert max(times["prepared"]) <= min(times["up"])


def test_the_others_are_stopped_though_they_ignore_sigterm(gang):
    gang.until("stubborn", lambda job: has_ended(job, 1))
    alive = [line["worker"] for line in gang.lines("stubborn") if line["text"] == "alive"]
    assert set(alive) == set(range(gang.size)) - {1}
    left = gang.tpuctl(
        "node",
        "exec",
        f"{gang.jobs['stubborn']}-a1",
        "--zone",
        ZONE,
        "--",
        "pgrep",
        "-fc",
        "[a]live",
    )
    assert "[0] 0" in left.out, left
