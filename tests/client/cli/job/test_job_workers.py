"""`tpuctl job exec` and `job ssh`: the workers of the slices that a job has now."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from clouds import Cloud, Runner

from client.cli.job.job_records import attempt, job, put, store_of
from client.cli.node.four_workers import slice_of_four
from tpuctl.agent.job.prepare import container
from tpuctl.models.job import AttemptState, JobState

SAY = ("sh", "-c", "echo $TPUCTL_JOB $TPUCTL_WORKER_ID/$TPUCTL_WORKER_COUNT $TPUCTL_SLICE_ID")
RUNNING = {
    "state": AttemptState.RUNNING, "deleted_s": None, "ended_s": None, "outcome": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def four(manual_cloud: Cloud) -> Runner:
    """`tpuctl` with n1 of four workers, which job digits-1 has; pair-1 has p-0 and p-1."""
    tpuctl = slice_of_four(manual_cloud)
    assert tpuctl("node", "create", "p-0", "-t", "v5litepod-4").code == 0
    assert tpuctl("node", "create", "p-1", "-t", "v5litepod-4").code == 0
    ids = {
        name: int(tpuctl("node", "describe", name, "-o", "json").json["id"])
        for name in ("n1", "p-0", "p-1")
    }
    store = store_of(tpuctl.home)
    on_n1 = attempt(node="n1", node_ids=(ids["n1"],), worker_count=4, **RUNNING)
    put(store, job(state=JobState.RUNNING, attempts=(on_n1,)))
    pair = replace(on_n1, node="p", slices=2, node_ids=(ids["p-0"], ids["p-1"]))
    put(store, job("pair-1", JobState.RUNNING, attempts=(pair,)))
    alone = replace(on_n1, node="p-0", node_ids=(ids["p-0"],), worker_count=1)
    boxed = job("boxed-1", JobState.RUNNING, attempts=(alone,))
    put(store, replace(boxed, spec=replace(boxed.spec, image="us-docker.pkg.dev/p/train/jax:1")))
    remade = replace(on_n1, node_ids=(7,))
    put(store, job("remade-1", JobState.RUNNING, attempts=(remade,)))
    gone = replace(on_n1, node="nowhere")
    put(store, job("gone-1", JobState.RUNNING, attempts=(gone,)))
    waits = {"why": "us-west4-a: out of capacity"}
    put(store, job("waits-1", JobState.WAITING, attempts=(attempt(),), **waits))
    put(store, job("done-1", JobState.SUCCEEDED, attempts=(attempt(),)))
    return tpuctl


def test_exec_runs_beside_the_program_which_finds_the_same_variables(four):
    result = four("job", "exec", "digits", "--", *SAY)
    assert result.code == 0
    said = [f"[{n}] digits-1 {n}/4 0" for n in range(4)]
    assert sorted(result.out.splitlines()) == said


def test_exec_numbers_the_workers_of_several_slices_on(four):
    result = four("job", "exec", "pair", "--", *SAY)
    assert sorted(result.out.splitlines()) == ["[0] pair-1 0/2 0", "[1] pair-1 1/2 1"]
    one = four("job", "exec", "pair", "--worker", "1", "--", *SAY)
    assert (one.code, one.out) == (0, "pair-1 1/2 1\n")


def test_exec_of_a_job_with_an_image_goes_into_its_container(four):
    early = four("job", "exec", "boxed", "--", "hostname")
    assert (early.code, early.out) == (1, "")
    assert early.err == "tpuctl: there is no container yet\n"
    run = ".tpuctl/jobs/boxed-1-a1"
    found = f'mkdir -p {run}; echo \'["echo", "-n"]\' > {run}/{container.ENGINE_FILE}'
    assert four("node", "exec", "p-0", "--", "sh", "-c", found).code == 0
    result = four("job", "exec", "boxed", "--", "ls", "-l")
    name = container.container_name({"job": "boxed-1", "attempt": 1})
    assert (result.code, result.out) == (0, f"exec {name} ls -l")


def test_exec_exits_as_node_exec_does(four):
    script = "exit $((TPUCTL_WORKER_ID == 1))"
    result = four("job", "exec", "pair-1", "--", "sh", "-c", script)
    assert (result.code, result.out) == (70, "")
    assert result.err == (
        "WORKER  EXIT  WHY\n1       1     exit 1\n0       0     ok\n"
        "error: 1 of 2 workers failed\n"
        "hint: run it on them alone: tpuctl job exec pair-1 --only-failed -- COMMAND\n"
    )
    again = four("job", "exec", "pair-1", "--only-failed", "--", *SAY)
    assert (again.code, again.out) == (0, "pair-1 1/2 1\n")
    assert four("job", "exec", "digits", "--worker", "2", "--", "sh", "-c", "exit 7").code == 7


def test_ssh_gives_a_command_our_input_and_exits_as_it_does(four):
    argv = [sys.executable, "-P", "-m", "tpuctl", "job", "ssh", "pair", "--worker", "1", "--"]
    environ = {**os.environ, "TPUCTL_HOME": str(four.home)}
    script = "cat; exit 9"
    done = subprocess.run(
        [*argv, "sh", "-c", script], env=environ, input=b"typed", capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (9, b"typed")


def test_ssh_goes_to_one_worker_of_the_job(four):
    result = four("job", "ssh", "pair", "--worker", "0-1", "--", "true")
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith("hint: run: tpuctl job exec pair-1 -- COMMAND\n")
    assert four("job", "ssh", "digits", "--worker", "4").err == (
        "error: job 'digits-1' has no worker 4\nhint: it has workers 0 to 3\n"
    )


@pytest.mark.parametrize("verb", ["exec", "ssh"])
@pytest.mark.parametrize(
    ("name", "error", "hint"),
    [
        (
            "waits-1",
            "job 'waits-1' is WAITING and has no slice now: us-west4-a: out of capacity",
            "run: tpuctl job describe waits-1",
        ),
        (
            "done-1",
            "job 'done-1' is SUCCEEDED and has no slice now: it is SUCCEEDED",
            "run: tpuctl job logs done-1",
        ),
        (
            "gone-1",
            "job 'gone-1' is RUNNING and has no slice now: node 'nowhere' is gone",
            "run: tpuctl job describe gone-1",
        ),
        (
            "remade-1",
            "node 'n1' is not the slice of job 'remade-1' any more: it was created again",
            "run: tpuctl job describe remade-1",
        ),
    ],
)
def test_a_job_that_has_no_slice_now_says_what_it_waits_for(four, verb, name, error, hint):
    result = four("job", verb, name, "--", "true")
    assert (result.code, result.out) == (12, "")
    assert result.err == f"error: {error}\nhint: {hint}\n"
