"""The samples of workers are bounded: by time, and by their number."""

from localsim.rules.project import worker_samples
from localsim.rules.project.worker_samples import MonitoredWorker, WorkerSample, WorkerSampleStore


def worker(number: int) -> MonitoredWorker:
    return MonitoredWorker("us-west4-a", "n1", number, f"t1v-n-1-w-{number}", str(number))


def times(store: WorkerSampleStore) -> dict[int, list[float]]:
    return {each.worker_id: [row.time_s for row in rows] for each, rows in store.items()}


def test_samples_older_than_a_day_are_dropped():
    store = WorkerSampleStore()
    for minute in range(0, 25 * 60, 30):
        store.add(worker(0), WorkerSample(minute * 60.0, minute * 60.0, 1))
    (kept,) = times(store).values()
    assert (len(kept), kept[0], kept[-1]) == (48, 3600.0, 24.5 * 3600)


def test_of_too_many_the_oldest_of_all_workers_are_dropped(monkeypatch):
    monkeypatch.setattr(worker_samples, "MOST_SAMPLES", 4)
    store = WorkerSampleStore()
    for time_s in (60.0, 120.0, 180.0):
        for number in (0, 1):
            store.add(worker(number), WorkerSample(time_s, time_s, 1))
    assert times(store) == {0: [120.0, 180.0], 1: [120.0, 180.0]}
    store.clear()
    assert times(store) == {}
