"""What was watched without a job is kept for a week, in a file that may be damaged or full."""

import sqlite3
from contextlib import closing

from tpuctl.metrics import sample_history
from tpuctl.metrics.sample_history import FILE, SampleHistory
from tpuctl.metrics.samples import Sample, WorkerSamples

DAY_S = 86400.0


def worker(worker_id: int, *times_s: float) -> WorkerSamples:
    samples = [Sample(time_s, {"host.load_1m": time_s / 1000}) for time_s in times_s]
    return WorkerSamples(0, worker_id, samples)


def times(found: list[WorkerSamples]) -> dict[int, list[float]]:
    return {each.worker_id: [sample.time_s for sample in each.samples] for each in found}


def test_a_week_of_each_node_is_kept_apart(tmp_path):
    history = SampleHistory(tmp_path)
    history.add("4711", [worker(0, 1000.0, 2000.0), worker(1, 2000.0)])
    history.add("4712", [worker(0, 3000.0)])
    assert history.read("4711") == [worker(0, 1000.0, 2000.0), worker(1, 2000.0)]
    assert times(history.read("4711", 1500.0)) == {0: [2000.0], 1: [2000.0]}
    history.add("4711", [worker(0, 1500.0 + 7 * DAY_S)])
    assert times(history.read("4711")) == {0: [2000.0, 1500.0 + 7 * DAY_S], 1: [2000.0]}


def test_the_oldest_go_when_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_history, "MOST_ROWS", 2)
    history = SampleHistory(tmp_path)
    history.add("4711", [worker(0, *(float(second) for second in range(5)))])
    assert len(history.read("4711")[0].samples) <= 3


def test_a_file_that_is_no_database_is_begun_anew(tmp_path):
    (tmp_path / FILE).write_text("no database" * 100)
    history = SampleHistory(tmp_path)
    assert history.read("4711") == []
    history.add("4711", [worker(0, 1.0)])
    assert times(history.read("4711")) == {0: [1.0]}


def test_a_damaged_sample_and_a_file_in_use_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_history, "PATIENCE_S", 0.0)
    history = SampleHistory(tmp_path)
    history.add("4711", [worker(0, 1.0, 2.0)])
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("UPDATE samples SET packed = x'00' WHERE time_s = 1")
        assert times(history.read("4711")) == {0: [2.0]}
        other.execute("BEGIN EXCLUSIVE")
        history.add("4711", [worker(0, 3.0)])
        other.execute("ROLLBACK")
    assert times(history.read("4711")) == {0: [2.0]}
