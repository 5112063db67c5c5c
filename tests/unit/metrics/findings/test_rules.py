"""Each rule has a scene that triggers it and scenes like it that do not."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tpuctl.metrics.findings import (
    chip_rules,
    host_rules,
    peer_rules,
    program_rules,
    state_rules,
)
from tpuctl.metrics.findings.observation import ChipUser, Observation, Saving
from tpuctl.metrics.findings.rules import findings
from tpuctl.metrics.samples import Sample, WorkerSamples
from tpuctl.models.duration import age
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    JobRecord,
    JobSpec,
    JobState,
    WorkerReport,
)
from tpuctl.models.job_log import LogLine
from tpuctl.models.node import Node, Symptom, Worker

T = 1_800_000_000.0
GIB = float(2**30)
MIB = float(2**20)
Value = float | Callable[[float], float]


def worker(worker_id: int, values: Mapping[str, Value], *, minutes: float = 5) -> WorkerSamples:
    """A sample each 10 s up to T; a value may be a function of the seconds since the first."""
    offsets = [10.0 * number for number in range(int(6 * minutes) + 1)]
    samples = [
        Sample(
            T - offsets[-1] + offset,
            {name: each(offset) if callable(each) else each for name, each in values.items()},
        )
        for offset in offsets
    ]
    return WorkerSamples(2, worker_id, samples)


def busy(pace: float = 2.0, duty: float = 80.0, **more: Value) -> dict[str, Value]:
    """What a worker that trains well tells; `host_cpu_percent=95` is `host.cpu_percent`."""
    told = {name.replace("_", ".", 1): value for name, value in more.items()}
    return {
        "chip.held": 1.0, "chip.duty_cycle_percent/0": duty, "chip.duty_cycle_percent/1": duty,
        "chip.hbm_used_bytes/0": 8 * GIB, "chip.hbm_total_bytes/0": 16 * GIB,
        "host.cpu_percent": 20.0, "host.network_received_bytes_per_s": 20 * MIB,
        "host.network_sent_bytes_per_s": 20 * MIB,
        "host.memory_used_bytes": 30 * GIB, "host.memory_total_bytes": 100 * GIB,
        "host.disk_used_bytes": 40 * GIB, "host.disk_total_bytes": 100 * GIB,
        "program.step": lambda offset: float(int(pace * offset)), "program.step_age_s": 0.4,
        "program.loss": 2.5, **told,
    }  # fmt: skip


def four(**odd: dict[str, Value]) -> list[WorkerSamples]:
    """Four workers that train well; `w3={...}` is another one in the place of worker 3."""
    return [worker(number, odd.get(f"w{number}", busy())) for number in range(4)]


WITHOUT_STEPS = {name: value for name, value in busy().items() if "step" not in name}
FREE, HELD = {"chip.held": 0.0, "host.cpu_percent": 1.0}, {"chip.held": 1.0}


def attempt(**changes: object) -> Attempt:
    at_first = {
        "number": 2, "zone": "us-west4-a", "node": "digits-1-a2", "owned": True,
        "state": AttemptState.RUNNING, "worker_count": 4, "started_s": T - 3600,
    }  # fmt: skip
    return Attempt(**{**at_first, **changes})


def ended(outcome: AttemptOutcome = AttemptOutcome.FAILED, **changes: object) -> Attempt:
    return attempt(state=AttemptState.ENDED, outcome=outcome, **changes)


def job(*attempts: Attempt, state: JobState = JobState.RUNNING) -> JobRecord:
    return JobRecord(
        "digits-1", JobSpec("digits", "python3 train.py"), "me@here", T - 4000, "us-west4-a",
        "v5litepod-16", state=state, attempts=attempts or (attempt(),),
    )  # fmt: skip


def of_job(*series: WorkerSamples, **more: object) -> Observation:
    return Observation(
        T, list(series), **{"job": job(), "is_live": True, "usd_per_hour": 9.6, **more}
    )


def failed(*attempts: Attempt, **more: object) -> Observation:
    return Observation(T, job=job(*attempts, state=JobState.FAILED), **more)


def node(state: str = "READY", **changes: object) -> Node:
    workers = tuple(Worker(number, f"10.0.0.{number + 2}") for number in range(2))
    at_first = {"health": "HEALTHY", "created_s": T - 7200, "workers": workers, **changes}
    return Node(
        "n1", "us-west4-a", 4711, "v5litepod-8", "v2-alpha-tpuv5-lite", state, "spot", **at_first
    )


def of_node(*series: WorkerSamples, **more: object) -> Observation:
    return Observation(
        T, list(series), **{"node": node(), "is_live": True, "usd_per_hour": 4.8, **more}
    )


def two(values: Mapping[str, Value], minutes: float = 5) -> list[WorkerSamples]:
    return [worker(number, values, minutes=minutes) for number in range(2)]


def compiled(times: int, seconds: float) -> list[LogLine]:
    """What JAX prints of compilations in the last minutes, each followed by a step."""
    text = f"Finished XLA compilation of jit(train_step) in {seconds:.9f} sec"
    return [
        LogLine(2, 0, T - 280 + 10 * number, line)
        for number in range(times)
        for line in (text, f"step={number}")
    ]


ONE_SAMPLE = 0.0
STACK_HANG = ended(AttemptOutcome.HUNG, reason="no line and no step for 15m", first_worker=3)
SIGKILLED = ended(
    reason="worker 1: the program was killed by signal 9", first_worker=1,
    workers=(WorkerReport(0, stopped=True, signal=9), WorkerReport(1, phase="ended", signal=9)),
)  # fmt: skip
STEPLESS = busy(program_step=100.0, program_step_age_s=1320.0)
ENDED_LONG_AGO = replace(
    job(ended(AttemptOutcome.SUCCEEDED), state=JobState.SUCCEEDED), ended_s=T - 1200
)
IN_JOB = ChipUser("pid 7 of me: python3", T - 900, "digits-1")
ONE_HAS_ENDED = attempt(workers=(WorkerReport(3, phase="ended", exit_status=0),))
EVERY_MINUTE = lambda offset: 100.0 * int(offset / 75)  # noqa: E731
LATER_EVERY_MINUTE = lambda offset: 100.0 * int((offset + 40) / 75)  # noqa: E731

TRIGGERED = {
    "straggler by steps": (
        of_job(*four(w3=busy(1.2))),
        "straggler", (3,), "worker 3 is slower than the others",
        "1.2 steps/s in the last 5 m, the others 2 (median), limit 80 %",
        "tpuctl job exec digits-1 --worker 3 -- top -b -n 1",
    ),
    "straggler that stands still": (
        of_job(*four(w0=busy(0.0))),
        "straggler", (0,), "worker 0 is slower than the others",
        "0 steps/s in the last 5 m, the others 2 (median), limit 80 %",
        "tpuctl job exec digits-1 --worker 0 -- top -b -n 1",
    ),
    "straggler of a job that began just now": (
        of_job(*(worker(number, busy(1.0 + (number != 3)), minutes=2) for number in range(4))),
        "straggler", (3,), "worker 3 is slower than the others",
        "1 steps/s in the last 2 m, the others 2 (median), limit 80 %",
        "tpuctl job exec digits-1 --worker 3 -- top -b -n 1",
    ),
    "straggler by its chips": (
        of_job(*four(w2=busy(duty=40.0))),
        "straggler", (2,), "the chips of worker 2 are less busy than those of the others",
        "busy 40 % in the last 5 m, the others 80 % (median), limit 70 %",
        "tpuctl job exec digits-1 --worker 2 -- top -b -n 1",
    ),
    "idle node, measured for long": (
        of_node(*two(FREE, 12)),
        "idle", (), "no process uses the chips of node n1, and it costs 4.80 USD/h",
        "no process has held them for 12 m, limit 10 m", "tpuctl node delete n1",
    ),
    "idle node, measured once": (
        of_node(*two(FREE, ONE_SAMPLE), usd_per_hour=None),
        "idle", (), "no process uses the chips of node n1",
        "no process holds them now; the node was created 2 h ago", "tpuctl node delete n1",
    ),
    "a job that does not use the chips": (
        of_job(worker(0, busy(), minutes=12), worker(1, FREE, minutes=12),
               job=job(attempt(worker_count=2))),
        "idle", (1,),
        "the program does not use the chips of worker 1, and its slice costs 9.60 USD/h",
        "no process has held them for 12 m, limit 10 m", "tpuctl job logs digits-1",
    ),
    "a job that has ended and kept its slice": (
        of_job(job=ENDED_LONG_AGO, kept_nodes=["digits-1-a2"]),
        "idle", (), "the slice of the job is still there, and it costs 9.60 USD/h",
        "the job ended 20 m ago, limit 10 m; teardown is always",
        "tpuctl node delete digits-1-a2",
    ),
    "held for long": (
        of_node(worker(0, FREE), worker(1, HELD, minutes=7)),
        "held", (1,), "a process holds the chips of worker 1, but has no program loaded",
        "held for 7 m, limit 5 m", "tpuctl node free n1 --worker 1",
    ),
    "held by a process that is old": (
        of_node(worker(0, FREE), worker(1, HELD, minutes=ONE_SAMPLE),
                holders={1: [ChipUser("pid 4711 of root: python3 train.py", T - 7200)]}),
        "held", (1,), "a process holds the chips of worker 1, but has no program loaded",
        "held for 2 h, limit 5 m; pid 4711 of root: python3 train.py",
        "tpuctl node free n1 --worker 1",
    ),
    "held on the second slice": (
        of_job(*four()[:3], worker(3, HELD, minutes=32), job=job(attempt(slices=2, node="p"))),
        "held", (3,), "a process holds the chips of worker 3, but has no program loaded",
        "held for 32 m, limit 30 m", "tpuctl node free p-1 --worker 1",
    ),
    "chip memory": (
        of_job(*four(w1={**busy(), "chip.hbm_used_bytes/3": 15.5 * GIB,
                         "chip.hbm_total_bytes/3": 15.75 * GIB})),
        "hbm-full", (1,), "the memory of the chips of worker 1 is nearly full",
        "15.5 GiB of 15.8 GiB (98 %) are used on device 3 of worker 1, limit 95 %",
        "tpuctl job metrics digits-1 --metric hbm_used_bytes",
    ),
    "host memory": (
        of_job(*four(w1=busy(host_memory_used_bytes=96 * GIB))),
        "memory-full", (1,), "the memory of worker 1 is nearly full",
        "96.0 GiB of 100.0 GiB (96 %) are used on worker 1, limit 95 %",
        "tpuctl job exec digits-1 --worker 1 -- ps -eo pid,rss,args --sort -rss",
    ),
    "disk that is full": (
        of_node(*two(busy(host_disk_used_bytes=97 * GIB))),
        "disk-full", (0, 1), "the disk of workers 0-1 is nearly full",
        "97.0 GiB of 100.0 GiB (97 %) are used on worker 0, limit 95 %",
        "tpuctl node exec n1 --worker 0-1 -- df -h",
    ),
    "disk that fills": (
        of_job(*four(w2=busy(host_disk_used_bytes=lambda offset: (80 + offset / 100) * GIB))),
        "disk-full", (2,), "the disk of worker 2 fills",
        "83.0 GiB of 100.0 GiB (83 %) are used on worker 2, "
        "full in 28 m at the rate of the last 5 m",
        "tpuctl job exec digits-1 --worker 2 -- df -h",
    ),
    "input-bound": (
        of_job(*(worker(number, busy(duty=30.0, host_cpu_percent=97.0)) for number in range(4))),
        "input-bound", (0, 1, 2, 3),
        "the chips of workers 0-3 wait for their host, whose processors are all busy",
        "in the last 5 m worker 0 had chips busy 30 % (limit 50 %) and processors busy 97 % "
        "(limit 90 %)",
        "tpuctl job exec digits-1 --worker 0-3 -- top -b -n 1",
    ),
    "recompiling": (
        of_job(*four(), recent_lines=compiled(20, 2.0)),
        "recompiling", (0,), "worker 0 compiles again and again",
        "40 s of the last 5 m, 20 times jit(train_step), limit 10 %; a shape or a constant "
        "changes from step to step",
        "tpuctl job logs digits-1 --worker 0 --grep Compiling",
    ),
    "slow checkpoint": (
        of_job(*four(), saving=Saving(3, 12.0, 60.0)),
        "slow-checkpoint", (), "the program waits long for its checkpoints",
        "12 s for each, one each 1 m (20 % of the time), limit 10 %",
        "tpuctl checkpoint advise digits-1",
    ),
    "network": (
        of_job(*four(w0=busy(host_network_sent_bytes_per_s=400 * MIB))),
        "unbalanced-network", (0,), "worker 0 sends much more over its network than the others",
        "400 MiB/s in the last 5 m, the others 20 MiB/s (median), limit 5 times that",
        "tpuctl job metrics digits-1 --metric network_sent_bytes_per_s",
    ),
    "clock": (
        of_node(*two(busy()), clock_off_s={0: 0.0, 1: -42.0}),
        "clock-off", (1,), "the clock of worker 1 is behind this machine's",
        "by at least 42 s, limit 10 s", "tpuctl node exec n1 --worker 1 -- timedatectl",
    ),
    "does not answer": (
        of_node(worker(0, busy()), unreached={1: "timed out after 10 s"}),
        "silent", (1,), "worker 1 does not answer", "timed out after 10 s",
        "tpuctl node workers n1 --check",
    ),
    "tells nothing": (
        of_job(*four()[:3]),
        "silent", (3,), "worker 3 reports nothing any more", "no sample for 1 h, limit 1 m",
        "tpuctl node workers digits-1-a2 --check",
    ),
    "hangs": (
        of_job(*(worker(number, STEPLESS) for number in range(4)), log_written_s=T - 1200),
        "hung", (0, 1, 2, 3), "workers 0-3 make no progress",
        "no step for 22 m, no line for 20 m, limit 15 m",
        "tpuctl job exec digits-1 --worker 0-3 -- ps -eo pid,stat,wchan:30,args",
    ),
    "one hangs": (
        of_job(*four(w3=STEPLESS), log_written_s=T - 5),
        "hung", (3,), "worker 3 makes no progress",
        "no step for 22 m, the newest of the others was 0 s ago, limit 15 m",
        "tpuctl job exec digits-1 --worker 3 -- ps -eo pid,stat,wchan:30,args",
    ),
    "hung and stopped": (
        failed(STACK_HANG, has_stacks=True),
        "hung", (3,), "attempt 2 hung and was stopped",
        "no line and no step for 15m; worker 3 was the first to fall silent; "
        "every stack was dumped before",
        "tpuctl job bundle digits-1",
    ),
    "killed": (
        failed(SIGKILLED, series=[worker(1, busy(host_memory_used_bytes=91 * GIB))]),
        "killed", (1,),
        "the program of worker 1 got SIGKILL, as the kernel sends when memory is full",
        "exit status 137 in attempt 2; memory was 91 % full",
        "tpuctl job metrics digits-1 --worker 1 --metric memory_used_bytes",
    ),
    "failed of its own": (
        failed(ended(reason="worker 1: the program ended with status 3", first_worker=1),
               log_ends={1: ["Traceback (most recent call last):", "ValueError: shapes"]}),
        "failed", (1,), "attempt 2 failed: worker 1: the program ended with status 3",
        "ValueError: shapes", "tpuctl job logs digits-1 --worker 1 --attempt 2",
    ),
    "waits after a failure": (
        of_job(job=job(ended(AttemptOutcome.STOCKOUT, reason="us-west4-a: no capacity"),
                       attempt(number=3, state=AttemptState.WAITING), state=JobState.WAITING)),
        "failed", (), "attempt 2 failed: us-west4-a: no capacity", "outcome stockout",
        "tpuctl job describe digits-1",
    ),
    "a node that is not ready": (
        of_node(node=node("PREEMPTED")),
        "not-ready", (), "node n1 is not READY", "state PREEMPTED", "tpuctl node describe n1",
    ),
    "a node in another zone than the context's": (
        of_node(*two(FREE, 12), zone="us-east1-c", usd_per_hour=None),
        "idle", (), "no process uses the chips of node n1",
        "no process has held them for 12 m, limit 10 m",
        "tpuctl node delete n1 --zone us-west4-a",
    ),
    "a node that is not healthy": (
        of_node(node=node(health="TIMEOUT", health_description="worker 1 is lost")),
        "unhealthy", (), "node n1 is not healthy", "health TIMEOUT: worker 1 is lost",
        "tpuctl node describe n1",
    ),
    "a symptom": (
        of_node(node=node(symptoms=(Symptom("LOW_MEMORY", "93 % used", "1", T - 120),))),
        "symptom", (1,), "the service reports LOW_MEMORY of worker 1", "2 m ago: 93 % used",
        "tpuctl node describe n1",
    ),
}  # fmt: skip

QUIET = {
    "a healthy job": of_job(*four()),
    "a healthy node": of_node(*two(busy())),
    "nothing measured": of_job(),
    "an older agent that does not tell of chips": of_job(
        worker(0, {"program.step": 5.0}, minutes=30), job=job(attempt(worker_count=1))
    ),
    "workers that differ a little": of_job(*four(w3=busy(1.7), w1=busy(duty=60.0))),
    "steps that are told once a minute": of_job(
        *four(w0=busy(program_step=EVERY_MINUTE), w1=busy(program_step=EVERY_MINUTE),
              w2=busy(program_step=EVERY_MINUTE), w3=busy(program_step=LATER_EVERY_MINUTE)),
    ),
    "all chips wait alike": of_job(*(worker(number, busy(duty=8.0)) for number in range(4))),
    "chips that work little, on a host that works little": of_job(
        *(worker(number, busy(duty=30.0, host_cpu_percent=60.0)) for number in range(4))
    ),
    "a host that works much, and chips too": of_job(
        *(worker(number, busy(duty=85.0, host_cpu_percent=97.0)) for number in range(4))
    ),
    "a new node": of_node(*two(FREE, ONE_SAMPLE), node=node(created_s=T - 300)),
    "a node that a job has": of_node(*two(FREE, 12), is_used=True),
    "a node of which half is used": of_node(worker(0, FREE, minutes=12), worker(1, busy())),
    "a node that was used four minutes ago": of_node(
        *two({"chip.held": lambda offset: float(offset < 480)}, 12)
    ),
    "a program that compiles": of_job(*(worker(number, HELD, minutes=29) for number in range(4))),
    "a job's program that compiles on a node": of_node(
        *two(HELD, 12), holders={0: [IN_JOB], 1: [IN_JOB]}
    ),
    "chips held by a process that just began": of_node(
        *two(HELD, ONE_SAMPLE), holders={0: [ChipUser("pid 7 of me: python3", T - 20)]}
    ),
    "chips that prepare": of_job(
        *(worker(number, FREE, minutes=12) for number in range(4)),
        job=job(attempt(state=AttemptState.PREPARING)),
    ),
    "memory that is used well": of_job(
        *four(w1={**busy(), "chip.hbm_used_bytes/0": 14.9 * GIB})
    ),
    "a download that ends": of_job(
        *four(w2=busy(host_disk_used_bytes=lambda offset: (30 + offset / 10) * GIB))
    ),
    "a full disk that does not fill": of_job(*four(w2=busy(host_disk_used_bytes=90 * GIB))),
    "a network of two": of_node(
        worker(0, busy(host_network_sent_bytes_per_s=400 * MIB)), worker(1, busy())
    ),
    "much more of little": of_job(*four(w0=busy(host_network_sent_bytes_per_s=49 * MIB),
                                        w1=busy(host_network_sent_bytes_per_s=1.0))),
    "a clock that is as far off as an answer takes": of_node(*two(busy()), clock_off_s={0: 2.0}),
    "a long step that prints": of_job(
        *(worker(number, STEPLESS) for number in range(4)), log_written_s=T - 60
    ),
    "compiling at the start": of_job(
        *(worker(number, busy(), minutes=1) for number in range(4)), recent_lines=compiled(20, 2.0)
    ),
    "a shape that is new": of_job(*four(), recent_lines=compiled(2, 8.0)),
    "a save in the background": of_job(*four(), saving=Saving(3, 0.4, 60.0)),
    "only worker 0 tells steps": of_job(
        *four(w1=WITHOUT_STEPS, w2=WITHOUT_STEPS, w3=WITHOUT_STEPS), log_written_s=T - 1200
    ),
    "a job that has ended just now and keeps its slice for a while": of_job(
        job=replace(ENDED_LONG_AGO, ended_s=T - 300), kept_nodes=["digits-1-a2"]
    ),
    "a worker that has ended before the others": of_job(*four()[:3], job=job(ONE_HAS_ENDED)),
    "a job that succeeded": Observation(
        T + 9000, four(), job=job(ended(AttemptOutcome.SUCCEEDED), state=JobState.SUCCEEDED)
    ),
    "a job that was cancelled": failed(ended(AttemptOutcome.CANCELLED)),
    "a job that was preempted and waits": of_job(job=job(
        ended(AttemptOutcome.PREEMPTED), attempt(number=3, state=AttemptState.WAITING)
    )),
    "a job that runs after a failure": of_job(
        *four(), job=job(ended(number=1), attempt(number=2))
    ),
}  # fmt: skip


@pytest.mark.parametrize("scene", TRIGGERED)
def test_a_rule_says_what_is_wrong_with_its_numbers_and_what_to_do(scene):
    seen, *expected = TRIGGERED[scene]
    assert [tuple(found) for found in findings(seen)] == [tuple(expected)]


def test_what_two_rules_find_is_told_once_with_the_evidence_of_both():
    no_space = "OSError: [Errno 28] No space left on device"
    full = worker(1, busy(host_disk_used_bytes=100 * GIB))
    seen = failed(ended(first_worker=1), series=[full], log_ends={1: [no_space]})
    (found,) = (each for each in findings(seen) if each.name == "disk-full")
    assert found.evidence == (
        f"attempt 2: {no_space}; 100.0 GiB of 100.0 GiB (100 %) are used on worker 1, limit 95 %"
    )


@pytest.mark.parametrize("scene", QUIET)
def test_what_is_well_has_no_finding(scene):
    assert findings(QUIET[scene]) == []


STOPPED_BY_US = ended(
    reason="worker 0: the program ended with status 3", first_worker=0,
    workers=(WorkerReport(0, phase="ended", exit_status=3),
             WorkerReport(1, stopped=True, signal=9)),
)  # fmt: skip
NEAR = {
    "not-ready": QUIET["a healthy node"],
    "unhealthy": of_node(*two(busy()), node=node(health="HEALTH_UNSPECIFIED")),
    "symptom": QUIET["a healthy node"],
    "failed": QUIET["a job that succeeded"],
    "killed": failed(STOPPED_BY_US),
    "hung": of_job(
        *(worker(number, busy(program_step=100.0, program_step_age_s=890.0)) for number in range(4))
    ),
    "silent": of_job(*(each._replace(samples=each.samples[:-5]) for each in four())),
    "held": QUIET["a program that compiles"],
    "idle": of_node(*two(FREE, 9), node=node(created_s=T - 590)),
    "memory-full": of_job(*four(w1=busy(host_memory_used_bytes=94 * GIB))),
    "disk-full": QUIET["a full disk that does not fill"],
    "hbm-full": QUIET["memory that is used well"],
    "straggler": QUIET["workers that differ a little"],
    "input-bound": QUIET["a host that works much, and chips too"],
    "recompiling": QUIET["a shape that is new"],
    "slow-checkpoint": of_job(*four(), saving=Saving(3, 5.9, 60.0)),
    "unbalanced-network": of_job(*four(w0=busy(host_network_sent_bytes_per_s=99 * MIB))),
    "clock-off": of_node(*two(busy()), clock_off_s={0: 9.0, 1: -9.0}),
}
"""Of each finding a scene that is nearly one."""


def test_each_finding_has_a_scene_that_is_nearly_one():
    assert NEAR.keys() == {name for _, name, *_ in TRIGGERED.values()}
    wrong = {
        name: found
        for name, seen in NEAR.items()
        if (found := [each.name for each in findings(seen)]) and found != ["failed"]
    }
    assert wrong == {}
    assert [each.name for each in findings(NEAR["failed"])] == []


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


LIMITS = {
    "recompiling": percent(program_rules.COMPILING_SHARE),
    "slow-checkpoint": percent(program_rules.SAVING_SHARE),
    "killed": str(state_rules.KILLED_STATUS),
    "hung": age(state_rules.HUNG_S),
    "silent": age(host_rules.SILENT_S),
    "held": age(chip_rules.HELD_S),
    "idle": age(chip_rules.IDLE_S),
    "memory-full": percent(host_rules.MEMORY_SHARE),
    "disk-full": percent(host_rules.DISK_SHARE),
    "hbm-full": percent(chip_rules.HBM_SHARE),
    "straggler": percent(peer_rules.PACE_SHARE),
    "input-bound": f"{chip_rules.LOW_DUTY_PERCENT:.0f} %",
    "unbalanced-network": f"{peer_rules.NETWORK_TIMES:.0f} times",
    "clock-off": age(host_rules.CLOCK_S),
}
INNER_LIMITS = {
    "disk-full": (percent(host_rules.FILLING_SHARE), age(host_rules.FILLING_S)),
    "held": (age(chip_rules.COMPILING_S),),
    "straggler": (percent(peer_rules.DUTY_SHARE),),
    "input-bound": (f"{chip_rules.FULL_CPU_PERCENT:.0f} %",),
    "unbalanced-network": (f"{peer_rules.LEAST_BYTES_PER_S / MIB:.0f} MiB/s",),
}


def test_the_page_lists_every_rule_with_its_limits():
    page = (Path(__file__).parents[4] / "docs" / "explain.md").read_text("utf-8")
    table = page.partition("## Known errors")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| ?(.*?) ?\| (.*) \|$", table, re.MULTILINE)
    assert {name for name, _, _ in rows} == {name for _, name, *_ in TRIGGERED.values()}
    assert {name: limit for name, limit, _ in rows if limit} == LIMITS
    texts = {name: text for name, _, text in rows}
    missing = {n: [w for w in words if w not in texts[n]] for n, words in INNER_LIMITS.items()}
    assert missing == dict.fromkeys(INNER_LIMITS, [])
