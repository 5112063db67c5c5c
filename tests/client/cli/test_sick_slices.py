"""Slices with every trouble, as their samples lie in the bucket: all four views say the same.

`explain`, `top --once`, the dashboard and `job describe` look at half an hour of samples; the real
half hour is played by tests/soak/jobs.
"""

import io
import json
import re
from collections.abc import Callable, Mapping

import pytest
from clouds import MATRIX

from client.cli.dashboard.serving import Browser, findings_of, served
from client.cli.job.job_records import T, attempt, job, put, store_of
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.job import AttemptOutcome, AttemptState, JobState, Phase, WorkerReport
from tpuctl.operations.metrics import slice_watch
from tpuctl.operations.metrics.watched_slice import WatchedSlice
from tpuctl.packed_samples import pack

GIB, MIB = float(2**30), float(2**20)
NOW_S = T + 3600
MEASURED_S = 1800
WORKERS = 8
Value = float | Callable[[float], float]


def well(pace: float = 2.0, duty: float = 80.0, **more: Value) -> dict[str, Value]:
    """What a worker that trains well tells; a function is of the seconds since the first sample."""
    told = {name.replace("_", ".", 1): value for name, value in more.items()}
    return {
        "chip.held": 1.0, "chip.duty_cycle_percent/0": duty, "chip.idle_s/0": 0.0,
        "chip.hbm_used_bytes/0": 8 * GIB, "chip.hbm_total_bytes/0": 16 * GIB,
        "host.cpu_percent": 20.0, "host.network_received_bytes_per_s": 20 * MIB,
        "host.network_sent_bytes_per_s": 20 * MIB,
        "host.memory_used_bytes": 30 * GIB, "host.memory_total_bytes": 100 * GIB,
        "host.disk_used_bytes": 40 * GIB, "host.disk_total_bytes": 100 * GIB,
        "program.step": lambda at: float(int(pace * at)), "program.step_age_s": 0.4, **told,
    }  # fmt: skip


STUCK = well(
    duty=0.0, program_step=lambda at: float(min(200, int(2 * at))),
    program_step_age_s=lambda at: max(0.4, at - 100),
)  # fmt: skip
FREE: dict[str, Value] = {"chip.held": 0.0, "host.cpu_percent": 1.0}
SICK: Mapping[int, dict[str, Value]] = {
    1: well(pace=1.0),
    2: {**well(), "chip.hbm_used_bytes/0": 15.6 * GIB},
    3: STUCK,
    4: FREE,
    5: well(duty=30.0, host_cpu_percent=97.0),
    6: well(host_disk_used_bytes=97 * GIB),
    7: well(host_network_sent_bytes_per_s=400 * MIB),
}
"""Worker 0 is well, but for its clock: each of the others has another trouble."""
EXPECTED = {
    "straggler": [1], "hbm-full": [2], "hung": [3], "idle": [4], "input-bound": [5],
    "disk-full": [6], "unbalanced-network": [7],
}  # fmt: skip


class Views:
    """What each view says of a job: the names of findings with their workers."""

    def __init__(self, home, monkeypatch):
        self.home = home
        # Nobody answers here: what was measured before is all that `top` has to wait for.
        monkeypatch.setattr(slice_watch, "REPORT_TIMEOUT_S", 60.0)
        monkeypatch.setattr(WatchedSlice, "is_known", property(lambda watched: watched.has_past))

    def run(self, *argv: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        environ = {"TPUCTL_HOME": str(self.home)}
        code = main(argv, Runtime(out=out, err=err, environ=environ, now=lambda: NOW_S))
        return code, out.getvalue(), err.getvalue()

    def explain(self, name: str) -> dict[str, list[int]]:
        return named(json.loads(self.run("explain", name, "-o", "json")[1]))

    def describe(self, name: str) -> dict[str, list[int]]:
        return named(json.loads(self.run("job", "describe", name, "-o", "json")[1])["findings"])

    def top(self, name: str) -> dict[str, list[int]]:
        """What the rows of its workers say is wrong with them."""
        found: dict[str, list[int]] = {}
        code, out, err = self.run("top", name, "--once", "-o", "json")
        assert code == 0, err
        for row in json.loads(out):
            for finding in row["findings"]:
                found.setdefault(finding, []).append(row["worker"])
        return found

    def dashboard(self, name: str) -> list[str]:
        """The sentences of the job's page under "What is wrong"."""
        with served(self.home, NOW_S) as board:
            browser = Browser(board.port)
            browser.sign_in(board.link)
            return findings_of(browser.get(f"/jobs/{name}"))


def named(findings: list[dict]) -> dict[str, list[int]]:
    return {each["name"]: each["workers"] for each in findings}


@pytest.fixture
def views(cloud, monkeypatch):
    return Views(cloud.home, monkeypatch)


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


def put_job(store, name: str, workers: int = WORKERS, **changes) -> None:
    """A job whose program has run for an hour."""
    running = attempt(
        state=AttemptState.RUNNING, outcome=None, ended_s=None, deleted_s=None, reason="",
        worker_count=workers,
        workers=tuple(WorkerReport(number, phase=Phase.RUNNING) for number in range(workers)),
    )  # fmt: skip
    put(store, job(name, **{"state": JobState.RUNNING, "attempts": (running,), **changes}))


def put_samples(
    store, name: str, worker: int, values: Mapping[str, Value], ahead_s: float = 0.0
) -> None:
    """Half an hour of samples, one each 10 s, up to five seconds ago."""
    begin_s = NOW_S - 5 - MEASURED_S + ahead_s
    rows = [
        {
            "time_s": begin_s + at,
            "values": {
                metric: each(at) if callable(each) else each for metric, each in values.items()
            },
        }
        for at in range(0, MEASURED_S + 1, 10)
    ]
    key = f"tpuctl/jobs/{name}/metrics/a1/w{worker}/{round(1000 * begin_s):015d}"
    store.put_if_absent(key, pack(rows))


def test_every_trouble_of_a_slice_is_told_of_its_worker_by_every_view(views, store):
    put_job(store, "sick-1")
    put_samples(store, "sick-1", 0, well(), ahead_s=45.0)
    for worker, values in SICK.items():
        put_samples(store, "sick-1", worker, values)
    assert views.explain("sick-1") == {**EXPECTED, "clock-off": [0]}
    assert views.describe("sick-1") == EXPECTED
    assert views.top("sick-1") == EXPECTED
    told = views.dashboard("sick-1")
    assert len(told) == len(EXPECTED)
    for worker in SICK:
        assert sum(bool(re.search(rf"\bworkers? {worker}\b", each)) for each in told) >= 1, worker


def test_a_slice_that_is_well_has_no_finding_in_any_view(views, store):
    put_job(store, "well-1")
    for worker in range(WORKERS):
        put_samples(store, "well-1", worker, well(pace=2 - worker / 50, duty=80 - worker))
    assert views.explain("well-1") == {}
    assert views.describe("well-1") == {}
    assert views.top("well-1") == {}
    assert views.dashboard("well-1") == []


def test_a_run_that_hung_and_was_stopped_is_told_with_its_stacks(views, store):
    hung = attempt(
        outcome=AttemptOutcome.HUNG, reason="no line and no step for 15m", first_worker=1,
        ended_s=NOW_S - 60,
    )  # fmt: skip
    put_job(store, "hung-1", attempts=(hung,), state=JobState.FAILED, ended_s=NOW_S - 60)
    store.put_if_absent("tpuctl/jobs/hung-1/stacks/a1/w1", b"Current thread 0x1 (most recent call")
    for found in (views.explain("hung-1"), views.describe("hung-1")):
        assert found == {"hung": [1]}
    line = (
        "attempt 1 hung and was stopped (no line and no step for 15m; worker 1 was the first to "
        "fall silent; every stack was dumped before); run: tpuctl job bundle hung-1\n"
    )
    assert views.run("explain", "hung-1")[1] == line
    described = views.run("job", "describe", "hung-1")[1]
    assert line in described
    assert "gs://local-bucket/tpuctl/jobs/hung-1/stacks/\n" in described
    (told,) = views.dashboard("hung-1")
    assert "hung and was stopped" in told
    assert "tpuctl job bundle hung-1" in told


def test_what_is_damaged_or_missing_is_said_and_the_rest_is_judged(views, store):
    """A damaged object, a worker whose agent measures nothing, one that measures only steps."""
    put_job(store, "odd-1", workers=4)
    put_samples(store, "odd-1", 0, well())
    put_samples(store, "odd-1", 1, well(pace=1.0))
    put_samples(store, "odd-1", 2, {"program.step": lambda at: float(int(2 * at))})
    folder = "tpuctl/jobs/odd-1/metrics/a1/"
    store.put_if_absent(f"{folder}w0/{round(1000 * (NOW_S - 4)):015d}", b"x\x9cnot packed")
    store.put_if_absent(f"{folder}w0/readme.txt", b"somebody else's")
    expected = {"straggler": [1], "silent": [3]}
    assert views.explain("odd-1") == expected
    _, _, warned = views.run("explain", "odd-1")
    assert re.search(rf"warning: {folder}w0/\d+ is damaged: its samples are not shown\n", warned)
    assert views.describe("odd-1") == {"straggler": [1]}
    assert views.top("odd-1") == {"straggler": [1]}
    assert len(views.dashboard("odd-1")) == 1


def test_a_job_whose_agents_measure_nothing_is_not_said_to_be_well_by_samples(views, store):
    """An agent of tpuctl 0.1.0 keeps no samples, and its record has no table of steps."""
    put_job(store, "old-1", workers=2)
    key = "tpuctl/records/old-1"
    record = json.loads(store.get_range(key))
    for each in record["attempts"]:
        for name in ("step_times", "save_waits", "first_step_s", "provisioning_s", "ran_s"):
            del each[name]
    store.put_if_generation(key, json.dumps(record).encode(), store.head(key).generation)
    assert views.run("explain", "old-1")[1] == (
        "job old-1 is RUNNING: nothing is known to be wrong with it, by its record\n"
    )
    assert views.describe("old-1") == {}
    assert views.top("old-1") == {}
    code, out, err = views.run("job", "metrics", "old-1")
    assert (code, out) == (0, "")
    assert "has no such samples yet" in err
    goodput = json.loads(views.run("job", "describe", "old-1", "-o", "json")[1])["goodput"]
    assert {each["part"] for each in goodput["parts"]} == {"waiting", "preparing", "training"}
    assert goodput["wall_s"] == 3600.0
    assert views.dashboard("old-1") == []


@MATRIX
def test_256_workers_are_judged_by_every_view(views, store):
    put_job(store, "large-1", workers=256)
    for worker in range(256):
        put_samples(store, "large-1", worker, well(pace=1.0 if worker == 200 else 2.0))
    assert views.explain("large-1") == {"straggler": [200]}
    assert views.describe("large-1") == {"straggler": [200]}
    assert views.top("large-1") == {"straggler": [200]}
    (told,) = views.dashboard("large-1")
    assert "worker 200 " in told
