"""Samples on their way from the worker to the bucket: a job never waits for them."""

import json

import pytest

from tpuctl.agent.job import metric_samples
from tpuctl.agent.job.metric_samples import MetricSamples
from tpuctl.agent.job.objects import ObjectClient
from tpuctl.packed_samples import unpack


class Counting:
    """Stands for a worker that is measured: each sample has the number of the look."""

    def __init__(self):
        self.looks = 0

    def sample(self, status):
        self.looks += 1
        return {"time_s": float(self.looks), "values": {"program.step": float(self.looks)}}


@pytest.fixture
def samples(worker, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", worker.server.address)
    found = MetricSamples(
        str(worker.directory), lambda: ObjectClient(worker.server.endpoint, "b"), "metrics", {}
    )
    found.sampler = Counting()
    return found


def in_bucket(worker) -> dict[str, list[float]]:
    store = worker.server.store
    return {
        entry.key: [sample["time_s"] for sample in unpack(store.get_range(entry.key))]
        for entry in store.list("metrics/")
    }


def test_samples_of_half_an_hour_are_one_object_named_by_the_first(worker, samples):
    for _ in range(3):
        samples.take()
    assert samples.upload()
    samples.take()
    assert samples.newest["safe_s"] == 3.0
    samples.finish(is_reachable=True)
    assert in_bucket(worker) == {
        "metrics/000000000001000": [1.0, 2.0, 3.0],
        "metrics/000000000004000": [4.0, 5.0],
    }
    assert samples.upload()  # there is nothing left to send


def test_what_the_bucket_does_not_take_waits_and_what_is_too_much_is_counted(
    worker, samples, monkeypatch
):
    monkeypatch.setattr(metric_samples, "MOST_SAMPLES", 2)
    worker.server.is_away = True
    for _ in range(4):
        samples.take()
    assert not samples.upload()
    assert samples.dropped == 2
    worker.server.is_away = False
    samples.take()
    assert samples.newest["dropped"] == 2
    assert samples.upload()
    assert in_bucket(worker) == {"metrics/000000000001000": [1.0, 2.0]}


def test_a_disk_that_takes_nothing_loses_samples_and_nothing_else(worker, samples):
    (worker.directory / metric_samples.FILE).mkdir()
    samples.take()
    assert (samples.dropped, samples.newest["time_s"]) == (1, 1.0)


def test_lines_that_were_damaged_are_not_sent_and_stop_nobody(worker, samples):
    samples.take()
    (worker.directory / metric_samples.FILE).write_text('{"time_s": 1')
    assert not samples.upload()
    samples.take()
    assert json.dumps(samples.newest)


def test_the_end_waits_neither_for_a_bucket_that_is_away_nor_for_an_upload(worker, samples):
    samples.take()
    samples.finish(is_reachable=False)
    assert in_bucket(worker) == {}


def test_a_run_that_ends_at_once_is_not_measured(worker, samples):
    samples.sampler = None
    samples.start()
    samples.finish(is_reachable=True)
    assert in_bucket(worker) == {}
