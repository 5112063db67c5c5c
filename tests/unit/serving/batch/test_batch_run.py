"""Workers of a batch job: every row once, whoever ends when, and the same bytes as undisturbed."""

import contextlib
import json
import threading

import numpy as np
import pytest

from tpuctl.errors import (
    ConflictError,
    JobFailedError,
    NotFoundError,
    PreconditionError,
    TpuctlError,
    UsageError,
)
from tpuctl.serving.batch.batch_run import BatchOutside, BatchRun, WorkerPlace
from tpuctl.serving.batch.padded_batches import PaddedBatches
from tpuctl.serving.batch.unit_plan import make_plan
from unit.checkpoint.interruptions import Interruption, Meddler
from unit.checkpoint.memory_store import Killed, MemoryStore
from unit.serving.batch.batch_worlds import BatchWorld, npz


def world():
    return BatchWorld().add_rows("a.npz", 0, 20).add_rows("deep/b.npz", 100, 9)


def test_every_row_is_there_once():
    job = world()
    manifest = job.run()
    rows = [*(("a.npz", row) for row in range(20)), *(("deep/b.npz", row) for row in range(9))]
    assert sorted(job.rows()) == rows
    assert (manifest["rows_in"], manifest["rows_out"], manifest["rows_rejected"]) == (29, 28, 1)
    rejects = [key for key in job.contents() if key.startswith("_rejects/")]
    line = json.loads(job.contents()[rejects[0]])
    assert line["input"] == "a.npz"
    assert line["row"] == 13
    assert "ValueError: unlucky" in line["error"]
    assert job.lines[-1].startswith("predicted: rows=29 rejected=1 units=5 shapes=3")


def test_inputs_without_rows_are_no_error():
    job = BatchWorld().add_rows("a.npz", 0, 0)
    assert (job.run()["inputs"], job.run()["units"]) == (1, 0)
    assert sorted(job.contents()) == ["_SUCCESS", "_tpuctl/plan.json"]
    table = BatchWorld().add("a.csv", b"x\n")
    assert table.run()["rows_in"] == 0
    assert b"row\n" in table.contents().values()


def test_the_first_units_are_read_before_the_model_is_there():
    job, is_read = world(), threading.Event()

    def note_reads(request, effect):
        is_read.set()
        return effect()

    outside = BatchOutside(job.lines.append)
    inputs, output = MemoryStore(job.inputs), MemoryStore(job.output)
    plan = make_plan(inputs, output, job.settings, "v1")
    observed = MemoryStore(job.inputs, note_reads)
    run = BatchRun(observed, output, plan, job.settings, WorkerPlace(), outside)
    assert not is_read.is_set()
    run.read_ahead()
    assert is_read.wait(10)
    assert run.run(PaddedBatches(lambda batch: {"y": batch["x"]}, 4))["rows_out"] == 29


def test_a_second_run_writes_nothing():
    job = world()
    first = job.run()
    before = job.output.contents()
    assert job.run() == first
    assert job.output.contents() == before


@pytest.mark.parametrize("kind", ["crash", "crash after", "fail", "lose reply"])
def test_a_worker_may_end_at_any_request(kind):
    """The n-th request of the output's store is the last of one worker, for every n."""
    calm = world()
    calm.run()
    at, wrong = 1, []
    while True:
        job, meddler = world(), Meddler()
        meddler.arm(Interruption(kind, at))
        with contextlib.suppress(Killed, TpuctlError):
            job.run(around=meddler)
        if not meddler.is_struck:
            break
        job.run()
        if job.contents() != calm.contents():
            wrong.append((at, sorted(set(job.contents()) ^ set(calm.contents()))))
        at += 1
    assert at > 15
    assert wrong == []


def test_workers_share_the_units_and_help_each_other():
    calm, job = world(), world()
    calm.run()
    meddler = Meddler()
    meddler.arm(Interruption("crash", 12))
    with pytest.raises(Killed):
        job.run(worker=0, workers=3, around=meddler)
    job.run(worker=2, workers=3)
    assert job.contents() == calm.contents()


def test_rows_that_fail_only_sometimes_are_still_there_once():
    """The output of the first is kept; the second rejects what it lacks, though it could do it."""
    job, meddler = world(), Meddler()
    outputs = []

    def crash_after_output(request, effect):
        outputs.append(request.key)
        if request.verb == "put" and request.key.startswith("a-000000000007"):
            effect()
            return meddler.crash(request, effect)
        return effect()

    with pytest.raises(Killed):
        job.run(around=crash_after_output)
    job.predict = lambda model, batch: {"y": batch["x"] * 2}
    manifest = job.run()
    rows = sorted(job.rows())
    assert rows == sorted(set(rows))
    assert len(rows) == manifest["rows_in"] == 29
    rejects = [data for key, data in job.contents().items() if key.startswith("_rejects/")]
    assert json.loads(rejects[0])["error"].startswith("it was rejected by an earlier try")


def test_nan_is_no_failure():
    job = BatchWorld(predict=lambda model, batch: {"y": np.log(batch["x"] - batch["x"] - 1)})
    with np.errstate(invalid="ignore"):
        assert job.add_rows("a.npz", 0, 5).run()["rows_rejected"] == 0


def fails(model, batch):
    raise ValueError("no model")


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({}, JobFailedError, "all 7 rows of the first unit are rejected"),
        ({"max_rejects": 10}, JobFailedError, "14 rows were rejected, and predict.max_rejects"),
    ],
)
def test_a_program_that_fails_ends_the_job(change, kind, text):
    job = world()
    job.predict = fails
    with pytest.raises(kind, match=text):
        job.run(**change)
    assert "_SUCCESS" not in job.contents()


def test_all_rows_may_be_rejected_where_they_are_allowed_to_be():
    job = world()
    job.predict = fails
    assert job.run(max_rejects=29)["rows_rejected"] == 29
    assert len(set(job.rows())) == 29


def test_an_output_of_another_version_or_input_is_refused():
    job = world()
    job.run()
    with pytest.raises(ConflictError, match="another program or checkpoint"):
        job.run(batch=8)
    with pytest.raises(ConflictError, match="another input"):
        job.run(input="other/**")


def test_an_output_with_other_objects_is_refused():
    job = world()
    MemoryStore(job.output).put_if_absent("mine.txt", b"")
    with pytest.raises(ConflictError, match=r"not empty: memory/mine\.txt"):
        job.run()


def test_an_input_that_changed_is_refused_by_its_generation():
    job, meddler = world(), Meddler()
    meddler.arm(Interruption("crash", 5))
    with pytest.raises(Killed):
        job.run(around=meddler)
    store = MemoryStore(job.inputs)
    store.put_if_generation("a.npz", npz(x=np.arange(3.0)), store.head("a.npz").generation)
    with pytest.raises(PreconditionError, match=r"a\.npz was changed or deleted"):
        job.run()


@pytest.mark.parametrize(
    ("files", "kind", "text"),
    [
        ({}, NotFoundError, "no object matches"),
        ({"a.npz": b"PK nonsense"}, UsageError, "is not an .npz archive"),
        ({"a.txt": b""}, UsageError, "ends with none of"),
        ({"a.npz": npz(x=np.arange(3)), "b.csv": b"x\n1\n"}, UsageError, "several formats"),
        (
            {"a.npz": npz(x=np.arange(3)), "b.npz": npz(z=np.arange(3))},
            UsageError,
            "the columns of memory/a.npz and b.npz differ: x <i8 | z <i8",
        ),
        (
            {"a.npz": npz(x=np.arange(3)), "b.npz": npz(x=np.arange(3.0))},
            UsageError,
            "column 'x' is <i8 in memory/a.npz, <f8 in b.npz",
        ),
        ({"a.npz": npz(x=np.arange(3), y=np.arange(4))}, UsageError, "differ in rows"),
        ({"a.npz": npz(x=np.array([{}, {}]))}, UsageError, "Python objects"),
        ({"a.npz": npz(row=np.arange(3))}, UsageError, "has a column 'row'"),
        ({"a.npy": b"\x93NUMPY\x01\x00"}, UsageError, "cannot be read as an array"),
    ],
)
def test_bad_inputs_are_refused_in_one_line(files, kind, text):
    job = BatchWorld()
    for name, data in files.items():
        job.add(name, data)
    with pytest.raises(kind) as refused:
        job.run()
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)
    assert job.contents() == {}
