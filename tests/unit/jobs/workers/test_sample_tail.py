"""Samples that were told and are not in the bucket yet are saved when the worker goes."""

import pytest

from tpuctl.jobs.record.decoding import MalformedError
from tpuctl.jobs.workers.sample_tail import SampleTail
from tpuctl.packed_samples import unpack
from tpuctl.store import open_store


def told(time_s: float, safe_s: float = 0.0, **values: float) -> dict:
    return {"time_s": time_s, "values": values, "safe_s": safe_s, "dropped": 0}


def test_what_the_bucket_lacks_is_saved_once(tmp_path):
    store, tail = open_store(str(tmp_path)), SampleTail()
    assert tail.add(None) is None
    for time_s in (1.0, 2.0, 2.0, 3.0):
        tail.add(told(time_s, loss=time_s))
    tail.add(told(4.0, safe_s=2.0, loss=4.0))
    tail.save(store, "metrics")
    tail.save(store, "metrics")
    (entry,) = store.list("")
    assert entry.key == "metrics/000000000003000"
    found = unpack(store.get_range(entry.key))
    assert [(each["time_s"], each["values"]) for each in found] == [
        (3.0, {"loss": 3.0}),
        (4.0, {"loss": 4.0}),
    ]


@pytest.mark.parametrize(
    "sample",
    [
        "x", [], {}, {"time_s": 1.0}, {"time_s": "x", "values": {}},
        {"time_s": 1.0, "values": {"a": "x"}}, {"time_s": 1.0, "values": {"a": float("nan")}},
        {"time_s": 1.0, "values": {f"a{number}": 1.0 for number in range(513)}},
    ],
)  # fmt: skip
def test_a_sample_that_makes_no_sense_is_refused(sample):
    with pytest.raises(MalformedError):
        SampleTail().add(sample)
