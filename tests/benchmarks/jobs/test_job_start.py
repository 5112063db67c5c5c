"""How soon jobs begin, are followed, and their failures are noticed: `pytest -m benchmark -s`."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from system.stories.gang_cloud import TYPES, ZONE, gangs, has_ended, is_running

from benchmarks import process_tree
from benchmarks.measure import keep
from tpuctl.jobs.local import supervisor_lock

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("namespaces"),
]
TPUCTL = [sys.executable, "-P", "-m", "tpuctl"]
ROUNDS = 5
SECONDS = 15
CHATTY = f"""python3 -c '
import os, time
began, said, who = time.time(), 0, os.environ["TPUCTL_WORKER_ID"]
while said < {SECONDS} * 1000:
    due = min({SECONDS} * 1000, int((time.time() - began) * 1000))
    lines = [f"worker {{who}} says line {{n}}\\n" for n in range(said, due)]
    print("".join(lines), end="", flush=True)
    said = due
    time.sleep(0.02)
'"""
STEPS = 'echo "step=$TPUCTL_ATTEMPT"; exec sleep 600'
STUBBORN = """
if [ "$TPUCTL_WORKER_ID" = 1 ]; then sleep 2; echo fails; exit 1; fi
trap '' TERM; while true; do echo alive; sleep 0.05; done
"""
AGENT = r"kill -9 $(sed 's/.*\"agent_pid\": \([0-9]*\).*/\1/' .tpuctl/jobs/*/status.json)"


@pytest.fixture
def here(tmp_path):
    with gangs(tmp_path, "namespace") as found:
        yield found


def node(here, name: str, workers: int) -> None:
    made = here.tpuctl("node", "create", name, "-t", TYPES[workers], "--zone", ZONE)
    assert made.code == 0, made.err


@contextmanager
def supervised(here):
    """A supervisor that stays, in place of the one that a submission has left."""
    supervisor_lock.stop_supervisor(here.cloud.home, "local")
    with command(here, "supervisor", "run", "--stay") as process:
        while supervisor_lock.holder_pid(here.cloud.home, "local") != process.pid:
            assert process.poll() is None
            time.sleep(0.1)
        yield process


@contextmanager
def command(here, *argv: str):
    """A tpuctl of its own, whose output is read as it comes."""
    environ = {**os.environ, "TPUCTL_HOME": str(here.cloud.home)}
    where = () if "supervisor" in argv else ("--zone", ZONE)
    with subprocess.Popen(
        [*TPUCTL, *argv, *where],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("workers", "target_s"), [(4, 1.5), (16, 3.0), (64, 6.0), (256, 24.0)])
def test_first_line(here, workers, target_s):
    """Also whose processor time it takes: a real slice's hosts carry what is the workers'."""
    node(here, "mine", workers)
    path = here.cloud.home / "job.yaml"
    path.write_text("name: hello\nrun: echo hello\n")
    argv = ["job", "submit", str(path), "--node", "mine", "-f"]
    alone_s = first_line_s(here, argv)
    with supervised(here) as supervisor:
        rounds = ROUNDS if workers <= 16 else 2
        found = [first_line(here, argv, supervisor.pid) for _ in range(rounds + 1)][1:]
    keep(
        f"submit to first log line, {workers} workers",
        f"at most {target_s} s on a ready slice",
        **{name: [each[name] for each in found] for name in found[0]},
        without_a_supervisor_s=alone_s,
    )


def first_line(here, argv, supervisor: int) -> dict[str, float]:
    """Seconds until the line can be read, and of the processor by whom they were used."""
    simulator = here.cloud.line["pid"]

    def used_s() -> dict[str, float]:
        own_s = process_tree.own_cpu_s(simulator)
        return {
            "workers_cpu_s": process_tree.cpu_s(simulator) - own_s,
            "simulator_cpu_s": own_s,
            "supervisor_cpu_s": process_tree.own_cpu_s(supervisor),
        }

    before_s = used_s()
    began = time.perf_counter()
    with command(here, *argv) as process:
        assert process.stdout.readline().endswith("hello\n")
        took_s = time.perf_counter() - began
        parts_s = {name: after_s - before_s[name] for name, after_s in used_s().items()}
        parts_s["client_cpu_s"] = process_tree.own_cpu_s(process.pid)
        process.wait()
    return {"ours_s": took_s, **parts_s}


def first_line_s(here, argv) -> float:
    """From the start of the command until the line can be read; the job is seen to its end."""
    began = time.perf_counter()
    with command(here, *argv) as process:
        assert process.stdout.readline().endswith("hello\n")
        took_s = time.perf_counter() - began
        process.wait()
    return took_s


def test_a_preemption(here):
    job = here.submit("steps", 4, STEPS)
    here.until("steps", is_running)
    with command(here, "job", "logs", "-f", job, "--attempt", "2", "-o", "json") as process:
        began = time.time()
        done = here.tpuctl("local", "preempt", f"{job}-a1", "--no-notice", "--zone", ZONE)
        assert done.code == 0, done.err
        line = json.loads(process.stdout.readline())
        seen_s = time.time() - began
    found = here.until("steps", is_running)
    delay_s = found.attempt.ready_s - found.attempt.requested_s
    keep(
        "preemption to resumed first step",
        "at most 3 s beyond the provisioning delay, and the program's own start",
        ours_s=[line["time_s"] - began - delay_s],
        seen_s=seen_s,
        provisioning_s=delay_s,
    )


@pytest.mark.parametrize("how", ["the program", "the agent", "killed", "hangs", "cut off"])
def test_a_death_is_noticed(here, how):
    job = here.submit("dies", 4, STEPS)
    here.until("dies", is_running)
    known = len(here.until("dies", is_running).events)
    slice_name = f"{job}-a1"
    began = time.time()
    if how in ("the program", "the agent"):
        kill = "pkill -9 sleep" if how == "the program" else AGENT
        argv = ["node", "exec", slice_name, "--worker", "1", "--zone", ZONE, "--", "sh", "-c", kill]
        here.tpuctl(*argv)
    else:
        here.fault(f"worker {slice_name}/1: {how}")
    found = here.until("dies", lambda each: len(each.events) > known)
    event = found.events[known]
    keep(
        f"worker death noticed: {how}",
        "within 5 s",
        ours_s=[event.time_s - began],
        told=event.text.replace(job, "JOB"),
    )


@pytest.mark.parametrize("workers", [1, 4])
def test_a_dead_worker_costs_its_slice(here, workers):
    """From the death of a worker to the request for another slice."""
    job = here.submit("dies", workers, STEPS)
    here.until("dies", is_running)
    began = time.time()
    here.fault(f"worker {job}-a1/0: killed")
    newest = here.until("dies", lambda each: each.attempt.node != f"{job}-a1").attempt
    keep(
        f"worker death to the next request, {workers} workers",
        "45 s",
        ours_s=[newest.requested_s - began],
    )


@pytest.mark.parametrize("workers", [4, 16])
def test_first_failure_to_all_stopped(here, workers):
    here.submit("stubborn", workers, STUBBORN, teardown="never")
    here.until("stubborn", lambda each: has_ended(each, 1))
    lines = here.lines("stubborn")
    failed_s = next(line["time_s"] for line in lines if line["text"] == "fails")
    last_s = max(line["time_s"] for line in lines if line["text"] == "alive")
    keep(
        f"first failure to all of {workers} stopped",
        "at most the grace of 10 s and 2 s",
        ours_s=[last_s - failed_s],
    )


def test_16_workers_of_1000_lines_a_second_are_followed(here):
    job = here.submit("chatty", 16, CHATTY)
    lags, texts = [], 0
    with command(here, "job", "logs", "-f", job, "--attempt", "2", "-o", "json") as process:
        for text in process.stdout:
            line = json.loads(text)
            assert not line["missing_bytes"]
            texts += line["text"].startswith("worker")
            lags.append(time.time() - line["time_s"])
    lags.sort()
    keep(
        "16 workers at 1,000 lines/s each, followed",
        "without falling behind",
        lag_p50_s=lags[len(lags) // 2],
        lag_p99_s=lags[len(lags) * 99 // 100],
        lag_max_s=lags[-1],
        lines=texts,
        expected=16 * SECONDS * 1000,
    )
