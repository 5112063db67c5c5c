"""`tpuctl job metrics`: what was measured on a job's workers, as it lies in the bucket."""

import re
import sys

import pytest

from client.cli.job.job_records import T, attempt, job, put, store_of
from tpuctl.models.job import AttemptOutcome
from tpuctl.packed_samples import pack

GIB = 2**30
END_S = T + 7200


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


def write(store, number: int, worker: int, *samples) -> None:
    rows = [{"time_s": time_s, "values": values} for time_s, values in samples]
    key = f"tpuctl/jobs/digits-1/metrics/a{number}/w{worker}/{round(1000 * samples[0][0]):015d}"
    store.put_if_absent(key, pack(rows))


def busy(step: int) -> dict[str, float]:
    return {
        "host.cpu_percent": 12.0, "chip.held": 1.0, "program.step": step, "program.loss": 2.5,
        "program.steps_per_s": 1.5, "host.memory_used_bytes": 3 * GIB,
        "host.memory_total_bytes": 48 * GIB,
        **{f"chip.duty_cycle_percent/{chip}": 80.0 + chip for chip in range(4)},
        **{f"chip.hbm_used_bytes/{chip}": 2 * GIB for chip in range(4)},
        **{f"chip.hbm_total_bytes/{chip}": 16 * GIB for chip in range(4)},
    }  # fmt: skip


@pytest.fixture
def measured(store):
    """A job of two attempts, the second of which had a worker that fell silent."""
    put(store, job(attempts=(attempt(), attempt(2, outcome=AttemptOutcome.FAILED))))
    write(store, 1, 0, (T + 100, busy(10)))
    write(store, 2, 0, (END_S - 20, busy(100)), (END_S - 10, busy(115)))
    write(store, 2, 1, (END_S - 72, {"chip.held": 1.0, "host.cpu_percent": 1.0}))


def test_the_table_has_the_newest_sample_of_each_worker(tpuctl, measured):
    assert tpuctl("job", "metrics", "digits", "--no-headers").out == (
        "0\tbusy 82 %\t8.0 GiB of 64.0 GiB\t12 %\t3.0 GiB of 48.0 GiB\t115\t1.5\t10 s\n"
        "1\tno answer since 1 m\t-\t1 %\t-\t-\t-\t1 m\n"
    )


def test_a_metric_is_shown_by_its_range_over_all_attempts(tpuctl, measured):
    shown = tpuctl("job", "metrics", "digits", "--metric", "step,loss", "--worker", "0")
    assert shown.out == (
        "ATTEMPT\tWORKER\tMETRIC\tLAST\tMIN\tMEAN\tMAX\tSAMPLES\n"
        "1\t0\tprogram.loss\t2.5\t2.5\t2.5\t2.5\t1\n"
        "1\t0\tprogram.step\t10\t10\t10\t10\t1\n"
        "2\t0\tprogram.loss\t2.5\t2.5\t2.5\t2.5\t2\n"
        "2\t0\tprogram.step\t115\t100\t107.5\t115\t2\n"
    )


def test_programs_get_every_sample(tpuctl, measured):
    shown = tpuctl("job", "metrics", "digits", "--metric", "step", "-o", "json").json
    assert shown[0] == {
        "attempt": 1, "worker": 0, "time_s": T + 100, "values": {"program.step": 10.0},
    }  # fmt: skip
    assert [each["time_s"] for each in shown] == [T + 100, END_S - 20, END_S - 10]
    lines = tpuctl(
        "job", "metrics", "digits", "--metric", "held,step", "-o", "csv"
    ).out.splitlines()
    assert lines[0] == "attempt,worker,time_s,metric,value"
    assert lines[1] == f"1,0,{T + 100:.3f},chip.held,1"
    assert lines[-1] == f"2,1,{END_S - 72:.3f},chip.held,1"


def test_a_part_that_is_damaged_is_named_and_the_others_are_shown(tpuctl, store, measured):
    store.put_if_absent(f"tpuctl/jobs/digits-1/metrics/a2/w1/{'9' * 15}", b"not packed")
    shown = tpuctl("job", "metrics", "digits", "--worker", "1", "--metric", "held")
    assert shown.rows == [["2", "1", "chip.held", "1", "1", "1", "1", "1"]]
    assert shown.err == (
        f"warning: tpuctl/jobs/digits-1/metrics/a2/w1/{'9' * 15} is damaged: "
        "its samples are not shown\n"
    )


def test_a_name_that_nothing_has_is_said(tpuctl, measured):
    shown = tpuctl("job", "metrics", "digits", "--metric", "losss")
    assert (shown.code, shown.out) == (0, "")
    assert shown.err == "nothing that was measured has a name like losss\n"


def test_a_job_without_samples_says_so(tpuctl, store):
    put(store, job())
    shown = tpuctl("job", "metrics", "digits")
    assert (shown.code, shown.out) == (0, "")
    assert shown.err == "job digits-1 has no such samples yet: tpuctl job describe digits\n"


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("nobody",), "error: job 'nobody' does not exist\nhint: run: tpuctl job list\n"),
        (("digits", "--since", "soon"),
         "error: 'soon' is not a duration\nhint: write it as 90s, 20m, 24h or 7d\n"),
        (("digits", "--worker", "x"),
         "error: 'x' does not name workers\nhint: write all, 0, 1,4,6 or 1-3\n"),
    ],
)  # fmt: skip
def test_what_is_typed_wrong_is_one_line(tpuctl, measured, argv, error):
    assert tpuctl("job", "metrics", *argv).err == error


def test_tensorboard_gets_a_run_for_each_worker_and_attempt(
    tpuctl, measured, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    first = tpuctl("job", "tensorboard", "digits")
    assert first.out == "tensorboard --logdir tensorboard/digits-1\n"
    assert first.err == "3 runs in tensorboard/digits-1, 4 samples added\n"
    files = [path for path in tmp_path.rglob("*tfevents*") if path.is_file()]
    runs = sorted(str(path.parent.relative_to(tmp_path)) for path in files)
    assert runs == [f"tensorboard/digits-1/{run}" for run in ("a1/w0", "a2/w0", "a2/w1")]
    again = tpuctl("job", "tensorboard", "digits", "--logdir", "tensorboard/digits-1", "-o", "json")
    assert again.json == {
        "logdir": "tensorboard/digits-1", "runs": 3, "samples": 0,
        "command": "tensorboard --logdir tensorboard/digits-1",
    }  # fmt: skip


def test_tensorboard_s_files_are_kept_in_a_bucket_too(tpuctl, cloud, store, measured):
    place = f"{store.url}/board"
    assert tpuctl("job", "tensorboard", "digits", "--logdir", place).out == (
        f"tensorboard --logdir {place}\n"
    )
    assert [entry.key[:18] for entry in store.list("board/")] == [
        f"board/{run}/events" for run in ("a1/w0", "a2/w0", "a2/w1")
    ]


def test_a_job_without_samples_is_nothing_for_tensorboard(tpuctl, store):
    put(store, job())
    shown = tpuctl("job", "tensorboard", "digits")
    assert (shown.code, shown.err) == (
        10, "error: job digits-1 has no samples yet\nhint: run: tpuctl job describe digits-1\n"
    )  # fmt: skip


def test_the_samples_go_with_the_job(tpuctl, store, measured):
    assert tpuctl("job", "delete", "digits-1", "--yes").code == 0
    assert list(store.list("tpuctl/jobs/digits-1/")) == []


def test_a_plot_shows_every_metric_and_marks_the_attempts(tpuctl, store, tmp_path):
    pytest.importorskip("matplotlib", reason="a plot needs matplotlib")
    first = attempt(started_s=T + 60, ended_s=T + 3600, outcome=AttemptOutcome.PREEMPTED)
    second = attempt(2, started_s=T + 4000, outcome=AttemptOutcome.FAILED, ended_s=END_S)
    put(store, job(attempts=(first, second)))
    write(store, 1, 0, *((T + 100 + 10 * n, busy(n)) for n in range(9)))
    write(store, 2, 1, (T + 4100, busy(9)))
    path = tmp_path / "digits.svg"
    assert tpuctl("job", "metrics", "digits", "--plot", str(path)).out == f"file  {path}\n"
    drawn = re.findall(r">([^<>]+)</text>", path.read_text())
    assert {"workers of digits-1", "Chips busy (%)", "HBM used (%)", "loss", "worker 1"} <= {*drawn}
    assert {" attempt 1", " attempt 2", "preempted ", "failed "} <= {*drawn}
    png = tmp_path / "loss.png"
    shown = tpuctl("job", "metrics", "digits", "--metric", "loss", "--plot", str(png), "-o", "json")
    assert shown.json == {"file": str(png)}
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_plot_of_nothing_is_not_written(tpuctl, measured, tmp_path):
    path = tmp_path / "none.png"
    shown = tpuctl("job", "metrics", "digits", "--metric", "losss", "--plot", str(path))
    assert shown.err == "nothing that was measured has a name like losss\n"
    assert not path.exists()


def test_a_plot_that_cannot_be_drawn_is_one_line(tpuctl, measured, tmp_path, monkeypatch):
    shown = tpuctl("job", "metrics", "digits", "--plot", "loss.pdf")
    assert shown.code == 2
    assert shown.err == (
        "error: a plot is a .png or a .svg, not 'loss.pdf'\nhint: write: --plot FILE.png\n"
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shown = tpuctl("job", "metrics", "digits", "--plot", str(tmp_path / "loss.png"))
    assert shown.code == 12
    assert shown.err == "error: --plot needs matplotlib\nhint: run: pip install matplotlib\n"
