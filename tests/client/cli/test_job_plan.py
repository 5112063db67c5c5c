"""`tpuctl plan --job`: the steps that a job in the bucket has told."""

import json

import pytest

from client.cli.job import job_records

RUN = ("--model", "llama-3-8b", "--tokens", "1T", "--seq", "8192", "--batch", "256")


def test_a_plan_is_calibrated_on_the_steps_of_a_job(cloud, tpuctl):
    store = job_records.store_of(cloud.home)
    steps = {"1": 100.0, "2": 160.0, "101": 6100.0}
    attempt = job_records.attempt(step_times=steps, accelerator_type="v5litepod-16")
    job_records.put(store, job_records.job("trained-1", attempts=(attempt,)))
    alone, calibrated = (
        json.loads(tpuctl("plan", *RUN, "-t", "v5e-16,v5e-256", *more, "-o", "json").out)
        for more in ((), ("--job", "trained-1"))
    )
    found = calibrated["calibration"]
    assert (found["job"], found["steps"], found["measured_s"]) == ("trained-1", 100, 60.0)
    assert found["modelled_s"] == pytest.approx(alone["rows"][0]["step_s"], rel=1e-3)
    assert calibrated["rows"][0]["step_s"] == pytest.approx(60.0, rel=1e-3)
    ratio = calibrated["rows"][1]["step_s"] / alone["rows"][1]["step_s"]
    assert ratio == pytest.approx(found["ratio"], rel=1e-3)
    text = tpuctl("plan", *RUN, "-t", "v5e-16", "--job", "trained-1").err
    assert "calibrated: 100 steps of job trained-1 on v5litepod-16 took 60 s each, modelled" in text


def test_a_job_that_is_not_there(cloud, tpuctl):
    found = tpuctl("plan", *RUN, "--job", "nothing")
    assert (found.code, found.err.splitlines()[0]) == (10, "error: job 'nothing' does not exist")
