"""Rows/s of a batch job of the digits beside a bare loop with its data in memory, on one worker.

`pytest -m benchmark -s`. Both are jobs on the same slice, in turns; each says its own rate, from
the model's being loaded to the last row: ours reads from the bucket and writes there.
"""

import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from system.stories.gang_cloud import TYPES, ZONE, gangs

from benchmarks.measure import keep
from tpuctl.checkpoint import Checkpointer

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("namespaces"),
]
DIGITS = Path(__file__).parents[3] / "templates" / "digits"
ROUNDS, ROWS, FILES, HIDDEN = 7, 786_432, 3, 1024
UNIT, BATCH = 32_768, 1024
BARE = f"""\
import io, os, time

import classify
import numpy as np
from tpuctl.serving.program import ModelCheckpoint
from tpuctl.store import open_store

began = time.monotonic()
bucket = "gs://" + os.environ["TPUCTL_BUCKET"]
model = classify.load(ModelCheckpoint(bucket + "/run"))
store = open_store(bucket + "/in")
files = [np.load(io.BytesIO(store.get_range(e.key)))["pixels"] for e in store.list()]
pixels = np.concatenate(files)
ready, cpu = time.monotonic(), time.process_time()
found = [classify.predict(model, {{"pixels": pixels[at : at + {BATCH}]}})
         for at in range(0, len(pixels), {BATCH})]
took, cpu = time.monotonic() - ready, time.process_time() - cpu
rows = sum(len(each["digit"]) for each in found)
print(f"bare: rows={{rows}} took_s={{took:.3f}} cpu_s={{cpu:.3f}}", flush=True)
"""
OURS = """\
import sys, time

from tpuctl.serving.batch import batch_run, worker_program

plain = batch_run.BatchRun.run


def run(self, batches):
    began = time.process_time()
    manifest = plain(self, batches)
    print(f"cpu_s={time.process_time() - began:.3f}", flush=True)
    return manifest


batch_run.BatchRun.run = run
sys.exit(worker_program.main())
"""
"""The same program, which says the processor time of its part besides."""


@pytest.fixture
def here(tmp_path):
    with gangs(tmp_path, "namespace") as found:
        made = found.tpuctl("node", "create", "one", "-t", TYPES[1], "--zone", ZONE)
        assert made.code == 0, made.err
        yield found


def put_inputs(here):
    """A checkpoint of the digits' network, and rows of random pixels."""
    random = np.random.default_rng(5)
    runtime = here.runtime()
    sizes = {"w1": (64, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, 10), "b2": (10,)}
    weights = {
        name: random.standard_normal(size).astype(np.float32) for name, size in sizes.items()
    }
    with Checkpointer(runtime.store("gs://local-bucket/run")) as checkpointer:
        checkpointer.restore()
        checkpointer.save(1, {"weights": weights}, force=True, wait=True)
    store = runtime.store("gs://local-bucket/in")
    for number in range(FILES):
        file = io.BytesIO()
        np.savez(file, pixels=random.integers(0, 17, (ROWS // FILES, 64), np.uint8))
        store.put_if_absent(f"{number}.npz", file.getvalue())


def said(here, name, expression):
    """The numbers of the last line of a job's log that has them."""
    here.until(name, lambda job: job.is_settled, 180)
    texts = [line["text"] for line in here.lines(name)]
    found = [match for text in texts if (match := re.search(expression, text))]
    assert found, texts
    return [float(number) for number in found[-1].groups()]


def test_a_batch_job_beside_a_bare_loop(here):
    put_inputs(here)
    work = here.cloud.home / "work"
    shutil.copytree(DIGITS, work)
    (work / "bare.py").write_text(BARE)
    (work / "ours.py").write_text(OURS)
    ours, bare, firsts, ready, busy, cpu = [], [], [], [], [], []
    for number in range(ROUNDS + 1):
        predict = {
            "program": "classify",
            "checkpoint": "gs://$BUCKET/run",
            "input": "gs://$BUCKET/in/*.npz",
            "output": f"gs://$BUCKET/out{number}",
            "unit_rows": UNIT,
            "batch": BATCH,
        }
        options = {"workdir": "work", "requires": "localsim"}
        batch, loop = f"ours{number}", f"bare{number}"
        here.submit(batch, 1, "python3 ours.py", "--node", "one", predict=predict, **options)
        (ready_s,) = said(here, batch, r"ready after ([\d.]+) s")
        first_s, took_s, share = said(
            here, batch, r"first_unit_s=([\d.]+) took_s=([\d.]+) busy=([\d.]+)"
        )
        here.submit(loop, 1, "python3 bare.py", "--node", "one", **options)
        (cpu_s,) = said(here, batch, r"cpu_s=([\d.]+)")
        rows, bare_s, bare_cpu_s = said(
            here, loop, r"bare: rows=(\d+) took_s=([\d.]+) cpu_s=([\d.]+)"
        )
        assert rows == ROWS
        if number:
            ours.append(round(ROWS / took_s))
            bare.append(round(ROWS / bare_s))
            firsts.append(first_s)
            ready.append(ready_s)
            busy.append(share)
            cpu.append(round(bare_cpu_s / cpu_s, 3))
    ratios = [round(one / other, 3) for one, other in zip(ours, bare, strict=True)]
    manifest = here.runtime().store("gs://local-bucket/out1").get_range("_SUCCESS")
    assert json.loads(manifest)["rows_out"] == ROWS
    keep(
        f"batch predictions of the digits, {ROWS} rows on one worker",
        "0.9 x the rows/s of the bare loop; first unit at most 1 s after the workers are ready",
        batch_rows_per_s=ours,
        bare_rows_per_s=bare,
        ratio=ratios,
        ratio_by_processor_time=cpu,
        share_of_time_in_predict=busy,
        first_unit_s=firsts,
        ready_s=ready,
    )
