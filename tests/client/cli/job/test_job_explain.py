"""`tpuctl explain` of a job, and the same findings in `job describe`: from what its bucket has."""

import io
import json

import pytest

from client.cli.job.job_records import T, attempt, job, put, store_of
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.job import AttemptOutcome, AttemptState, JobState, Phase, WorkerReport
from tpuctl.packed_samples import pack

GIB = 2**30
NOW_S = T + 3600
KEYS = ["name", "workers", "sentence", "evidence", "command"]
OUT_OF_MEMORY = (
    "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
    "Used 21.95G of 15.48G hbm."
)
NEEDS_MORE = "the program needs more memory than a chip has: make the batch smaller, or shard more"


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


@pytest.fixture
def at_noon(cloud):
    """`at_noon(*argv)`: the command line an hour after the jobs began."""

    def run(*argv: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        environ = {"TPUCTL_HOME": str(cloud.home)}
        code = main(argv, Runtime(out=out, err=err, environ=environ, now=lambda: NOW_S))
        return code, out.getvalue(), err.getvalue()

    return run


def measured(store, worker: int, newest_s: float, pace: float, hbm_gib: float = 8) -> None:
    """Five minutes of samples of a worker in the bucket."""
    rows = [
        {
            "time_s": newest_s - 300 + offset,
            "values": {
                "chip.held": 1.0, "chip.duty_cycle_percent/0": 80.0, "host.cpu_percent": 20.0,
                "chip.hbm_used_bytes/0": hbm_gib * GIB, "chip.hbm_total_bytes/0": 16.0 * GIB,
                "program.step": float(int(pace * offset)),
            },
        }
        for offset in range(0, 310, 10)
    ]  # fmt: skip
    key = f"tpuctl/jobs/digits-1/metrics/a1/w{worker}/{round(1000 * rows[0]['time_s']):015d}"
    store.put_if_absent(key, pack(rows))


def put_running(store, **changes):
    running = attempt(
        state=AttemptState.RUNNING, outcome=None, ended_s=None, deleted_s=None, reason="",
        workers=tuple(WorkerReport(number, phase=Phase.RUNNING) for number in range(2)), **changes,
    )  # fmt: skip
    return put(store, job(state=JobState.RUNNING, attempts=(running,)))


def put_failed(store, *lines: str):
    """A job whose second worker ended with these lines, while the first waited for it."""
    reports = (
        WorkerReport(0, Phase.ENDED, stage="run", signal=15, stopped=True, closed=True),
        WorkerReport(1, Phase.ENDED, stage="run", exit_status=1, closed=True, last_lines=lines),
    )
    failed = attempt(
        outcome=AttemptOutcome.FAILED, reason="worker 1: the program ended with status 1",
        first_worker=1, workers=reports,
    )  # fmt: skip
    return put(store, job(attempts=(failed,)))


def test_a_job_that_runs_well_has_no_finding(at_noon, store):
    put_running(store)
    measured(store, 0, NOW_S - 5, pace=2)
    measured(store, 1, NOW_S - 8, pace=2)
    assert at_noon("explain", "digits") == (
        0,
        "job digits-1 is RUNNING: nothing is known to be wrong with it, by its record and the "
        "samples of 2 workers, the newest 5 s old\n",
        "warning: no supervisor looks after digits-1; run: tpuctl supervisor run\n",
    )
    assert json.loads(at_noon("explain", "digits", "-o", "json")[1]) == []
    assert "what is wrong" not in at_noon("job", "describe", "digits")[1]


def test_each_finding_is_a_line_with_its_evidence_and_the_next_command(at_noon, store):
    put_running(store)
    measured(store, 0, NOW_S - 5, pace=2, hbm_gib=15.6)
    measured(store, 1, NOW_S - 5, pace=1)
    lines = (
        "the memory of the chips of worker 0 is nearly full (15.6 GiB of 16.0 GiB (97 %) are used "
        "on device 0 of worker 0, limit 95 %); "
        "run: tpuctl job metrics digits-1 --metric hbm_used_bytes\n",
        "worker 1 is slower than the others (1 steps/s in the last 5 m, the others 2 (median), "
        "limit 80 %); run: tpuctl job exec digits-1 --worker 1 -- top -b -n 1\n",
    )
    assert at_noon("explain", "digits-1")[1] == "".join(lines)
    found = json.loads(at_noon("explain", "digits-1", "-o", "json")[1])
    assert [list(each) for each in found] == [KEYS] * 2
    assert [(each["name"], each["workers"]) for each in found] == [
        ("hbm-full", [0]),
        ("straggler", [1]),
    ]
    assert at_noon("explain", "digits-1", "-o", "name")[1] == "hbm-full\nstraggler\n"


def test_describe_judges_what_the_bucket_has_as_of_then(at_noon, store):
    put_running(store)
    measured(store, 0, NOW_S - 1200, pace=2)
    measured(store, 1, NOW_S - 1200, pace=1)
    text = at_noon("job", "describe", "digits")[1]
    assert (
        "\nwhat is wrong, by samples until 20 m ago\n"
        "  worker 1 is slower than the others (1 steps/s in the last 5 m, the others 2 (median), "
        "limit 80 %); run: tpuctl job exec digits-1 --worker 1 -- top -b -n 1\n"
    ) in text
    code, out, _ = at_noon("explain", "digits")
    assert code == 0
    assert "worker 0 reports nothing any more (no sample for 20 m, limit 1 m); run: " in out


def test_a_known_error_in_the_last_lines_is_explained_here_and_in_describe(tpuctl, store):
    put_failed(store, "step=3", OUT_OF_MEMORY)
    line = (
        f"{NEEDS_MORE} (attempt 1: {OUT_OF_MEMORY}); "
        "run: tpuctl job metrics digits-1 --metric hbm_used_bytes\n"
    )
    assert tpuctl("explain", "digits").out == line
    described = tpuctl("job", "describe", "digits").out
    assert f"\nwhat is wrong\n  {line}" in described
    (found,) = tpuctl("job", "describe", "digits", "-o", "json").json["findings"]
    assert list(found) == KEYS
    assert (found["name"], found["workers"]) == ("hbm-out-of-memory", [1])


def test_what_stands_further_up_in_the_log_is_found_in_the_bucket(tpuctl, store):
    put_failed(store, "  Allocation type: HLO temp")
    dump = [OUT_OF_MEMORY, *(f"  {number}. Size: 2.00G" for number in range(400))]
    log = "".join(f"{T + number:.3f} {text}\n" for number, text in enumerate(dump))
    store.put_if_absent(f"tpuctl/jobs/digits-1/logs/a1/w1/{0:012d}", log.encode())
    assert tpuctl("explain", "digits", "-o", "name").out == "hbm-out-of-memory\n"


def test_a_failure_that_is_not_known_is_told_with_its_last_line(tpuctl, store):
    put_failed(store, "Traceback (most recent call last):", "ValueError: shapes (128,784)")
    assert tpuctl("explain", "digits").out == (
        "attempt 1 failed: worker 1: the program ended with status 1 (ValueError: shapes "
        "(128,784)); run: tpuctl job logs digits-1 --worker 1 --attempt 1\n"
    )
    assert "what is wrong" not in tpuctl("job", "describe", "digits").out


def test_a_job_that_succeeded_is_said_to_be_well(tpuctl, store):
    well = attempt(outcome=AttemptOutcome.SUCCEEDED, reason="all 2 workers ended well")
    put(store, job("done-1", JobState.SUCCEEDED, attempts=(well,)))
    assert tpuctl("explain", "done").out == (
        "job done-1 is SUCCEEDED: nothing is known to be wrong with it, by its record\n"
    )


def test_a_name_of_both_a_job_and_a_node_is_to_be_chosen(tpuctl, store):
    put_failed(store, OUT_OF_MEMORY)
    assert tpuctl("node", "create", "digits", "-t", "v5litepod-4", "--spot").code == 0
    both = tpuctl("explain", "digits")
    assert (both.code, both.err) == (
        2,
        "error: a job and a node have the name 'digits'\n"
        "hint: run: tpuctl explain digits --job, or: tpuctl explain digits --node\n",
    )
    assert NEEDS_MORE in tpuctl("explain", "digits", "--job").out
    assert "node digits is READY: " in tpuctl("explain", "digits", "--node").out


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (("nobody",), 10, "error: there is no job and no node 'nobody'\n"
                          "hint: run: tpuctl job list, or: tpuctl node list\n"),
        (("nobody", "--job"), 10, "error: there is no job 'nobody'\n"
                                  "hint: run: tpuctl job list, or: tpuctl node list\n"),
        (("nobody", "--node"), 10, "error: there is no node 'nobody'\n"
                                   "hint: run: tpuctl job list, or: tpuctl node list\n"),
        (("nobody", "--node", "--job"), 2, "error: --job and --node exclude each other\n"
                                           "hint: give one of them\n"),
    ],
)  # fmt: skip
def test_what_is_typed_wrong_is_one_line(tpuctl, argv, code, error):
    shown = tpuctl("explain", *argv)
    assert (shown.code, shown.out, shown.err) == (code, "", error)
