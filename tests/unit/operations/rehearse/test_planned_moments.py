"""The moments of a job: the same ones each time, and those that find the defects."""

import json
from dataclasses import asdict, replace

import pytest

from tpuctl.models.rehearsal.moment import Disturbance
from tpuctl.models.rehearsal.verdict import Judgement
from tpuctl.operations.rehearse.judgement.moment_verdict import judge_moment
from tpuctl.operations.rehearse.judgement.planned_moments import missing_moments, planned_moments
from unit.operations.rehearse.played_jobs import facts_of, kills_of, play_job
from unit.operations.rehearse.played_programs import DEFECTIVE, SOUND

SEEDS = range(5)
GOOD = (Judgement.PASS, Judgement.WARN)


def verdicts_of_moments(program, seed):
    """The verdict of every preemption without notice that is planned for a program."""
    reference = facts_of([play_job(program), play_job(program)])
    moments = planned_moments(reference, seed)
    return [
        judge_moment(moment, play_job(program, kills_of(moment.timeline)), reference)
        for moment in moments
        if moment.disturbance == Disturbance.PREEMPTION and moment.name.endswith("/none")
    ]


def known(verdicts):
    """Those whose moment came; a played job has no setup."""
    return [verdict for verdict in verdicts if not verdict.moment.name.startswith("setup/")]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_program_passes_every_planned_moment(name):
    wrong = [
        (seed, verdict.moment.name, verdict.checks)
        for seed in SEEDS
        for verdict in known(verdicts_of_moments(SOUND[name], seed))
        if verdict.judgement not in GOOD
    ]
    assert wrong == []


@pytest.mark.parametrize("cause", DEFECTIVE)
def test_the_planned_moments_find_a_defect_with_every_seed(cause):
    for seed in SEEDS:
        verdicts = verdicts_of_moments(DEFECTIVE[cause], seed)
        failed = [verdict for verdict in verdicts if verdict.judgement == Judgement.FAIL]
        assert {verdict.cause for verdict in failed} == {cause}, seed


def test_the_same_runs_and_seed_give_the_same_moments_byte_for_byte():
    references = [play_job(SOUND["files-and-marker"]) for _ in range(2)]
    texts = {
        json.dumps([asdict(moment) for moment in planned_moments(facts_of(references), 3)])
        for _ in range(3)
    }
    assert len(texts) == 1


def test_another_seed_chooses_other_saves():
    references = [play_job(SOUND["files-and-marker"]) for _ in range(2)]
    places = {
        moment.place
        for seed in range(20)
        for moment in planned_moments(facts_of(references), seed)
        if moment.name == "save:middle/none"
    }
    assert places == {
        "in the middle of 1st upload of b/runs/x/step-010/worker-1.json by job-*/1",
        "in the middle of 1st upload of b/runs/x/step-015/worker-1.json by job-*/1",
    }


PLACES = {
    "setup/none": "1s after 1st READY of job-*",
    "start-up/none": "before 1st list of b/runs/x/* by job-*/0",
    "save:before-first/none": "at step 3 of job-*/0",
    "save:first-byte/none": "at the first byte of 1st upload of b/runs/x/step-010/worker-0.json"
    " by job-*/0",
    "save:middle/none": "in the middle of 1st upload of b/runs/x/step-010/worker-1.json by job-*/1",
    "save:last-data/none": "before 1st upload of b/runs/x/step-010/worker-1.json by job-*/1",
    "save:marker/none": "before 1st upload of b/runs/x/step-010/DONE by job-*/0",
    "save:after/none": "after 1st upload of b/runs/x/step-010/DONE by job-*/0",
    "save:between/none": "at step 13 of job-*/0",
    "restore/none": "before 1st download of b/runs/x/*",
    "twice/none": "in the middle of 1st upload of b/runs/x/step-015/worker-1.json by job-*/1,"
    " and again",
    "worker-hangs": "at step 18 of job-*/0",
    "worker-killed": "at step 8 of job-*/1",
    "worker-cut-off": "at step 13 of job-*/1",
    "worker-slow": "at step 13 of job-*/1",
    "supervisor-killed": "at step 8 of job-*/0",
    "storage-errors": "at step 8 of job-*/1",
    "no-capacity": "at step 8 of job-*/0",
    "unreachable": "at step 13 of job-*/0",
}


def test_every_place_has_its_exact_words():
    references = [play_job(SOUND["files-and-marker"]) for _ in range(2)]
    moments = planned_moments(facts_of(references), 0)
    assert len(moments) == 41
    with_notice = ("/30s", "/5s")
    assert {m.name: m.place for m in moments if not m.name.endswith(with_notice)} == PLACES


def test_a_second_preemption_waits_for_the_first():
    references = [play_job(SOUND["files-and-marker"]) for _ in range(2)]
    moments = {m.name: m for m in planned_moments(facts_of(references), 0)}
    place = "in the middle of 1st upload of b/runs/x/step-015/worker-1.json by job-*/1"
    again = {
        "name": "again",
        "when": "in the middle of 1st upload of b/runs/x/step-*/worker-*.json",
        "do": "preempt job-* with notice of 5s",
    }
    first = {"name": "first", "when": place, "do": "preempt job-* without notice", "then": [again]}
    assert moments["twice/5s"].timeline == (first,)


def test_a_fault_of_a_worker_concerns_the_first_slice_alone():
    references = [play_job(SOUND["files-and-marker"]) for _ in range(2)]
    moments = {m.name: m for m in planned_moments(facts_of(references), 0)}
    actions = {name: moment.timeline[0]["do"] for name, moment in moments.items()}
    assert actions["worker-hangs"] == "worker job-*-a1/0: hangs"
    assert actions["no-capacity"] == [
        "capacity us-west4-a v4-16: 0",
        "preempt job-* without notice",
    ]
    assert actions["unreachable"] == "vpc: unreachable"


def test_a_job_without_markers_has_no_moment_at_its_marker():
    references = [play_job(SOUND["in-place"])]
    moments = planned_moments(facts_of(references), 0)
    assert missing_moments(moments) == ("save:last-data", "save:marker")


def test_a_marker_that_gets_its_name_by_a_move_is_waited_for_as_a_copy():
    def moved(request):
        is_marker = request.object.endswith("/DONE")
        return replace(request, method="storage.objects.move") if is_marker else request

    played = play_job(SOUND["files-and-marker"])
    reference = replace(played, requests=tuple(map(moved, played.requests)))
    places = {m.name: m.place for m in planned_moments(facts_of([reference]), 0)}
    for name, phase in (("save:marker/none", "before"), ("save:after/none", "after")):
        assert places[name].startswith(f"{phase} 1st copy of "), places[name]
        assert "/DONE by " in places[name]
    assert places["save:middle/none"].startswith("in the middle of 1st upload of ")
