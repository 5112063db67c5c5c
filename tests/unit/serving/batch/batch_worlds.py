"""A batch job over buckets in memory, whose workers run one after the other."""

import io
import json
from dataclasses import dataclass, field, replace

import numpy as np

from tpuctl.serving.batch.batch_run import BatchOutside, BatchRun, WorkerPlace, await_plan
from tpuctl.serving.batch.batch_settings import BatchSettings
from tpuctl.serving.batch.padded_batches import PaddedBatches
from tpuctl.serving.program import ModelProgram
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore, at_once

SETTINGS = BatchSettings("in/**", "out", program="double", unit_rows=7, batch=4)


def double(model, batch):
    """Twice `x`; a row with x = 13 fails, and so does its whole batch."""
    if (batch["x"] == 13).any():
        raise ValueError("unlucky")
    return {"y": batch["x"] * 2}


@dataclass
class BatchWorld:
    """The buckets of a job, and how its workers reach the output's."""

    settings: BatchSettings = SETTINGS
    predict: object = double
    inputs: MemoryBucket = field(default_factory=MemoryBucket)
    output: MemoryBucket = field(default_factory=MemoryBucket)
    lines: list[str] = field(default_factory=list)

    def add(self, name, data):
        MemoryStore(self.inputs).put_if_absent(name, data)
        return self

    def add_rows(self, name, start, count):
        """An .npz of x = start, start + 1, …"""
        return self.add(name, npz(x=np.arange(start, start + count, dtype=np.float64)))

    def run(self, worker=0, workers=1, around=at_once, **changed):
        """One worker from its beginning to its end; returns the manifest."""
        settings = replace(self.settings, **changed)
        inputs, output = MemoryStore(self.inputs), MemoryStore(self.output, around)
        place = WorkerPlace(worker, workers)
        clock = ManualClock()
        outside = BatchOutside(self.lines.append, now=clock.now, sleep=clock.sleep)
        plan = await_plan(inputs, output, settings, settings.version("v1"), place, outside)
        program = ModelProgram("double", lambda _: None, self.predict)
        batches = PaddedBatches(lambda batch: program.predict_batch(None, batch), settings.batch)
        return BatchRun(inputs, output, plan, settings, place, outside).run(batches)

    def contents(self):
        """Every object of the output, with its bytes."""
        return {key: data for key, (_, data) in self.output.objects.items()}

    def rows(self):
        """The rows of the outputs and of the rejects: (input, row) of each, in any order."""
        plan = json.loads(self.output.objects["_tpuctl/plan.json"][1])
        names = [key for key, *_ in plan["inputs"]]
        found = []
        for key, data in self.contents().items():
            if key.endswith(".npz"):
                name = next(name for name in names if key.startswith(name.removesuffix(".npz")))
                found += [(name, int(row)) for row in np.load(io.BytesIO(data))["row"]]
            elif key.startswith("_rejects/"):
                lines = map(json.loads, data.splitlines())
                found += [(line["input"], line["row"]) for line in lines]
        return found


def npz(**arrays):
    """The bytes of an archive."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


class ManualClock:
    """Time passes where somebody waits, and only there."""

    def __init__(self):
        self.time_s = 0.0

    def now(self):
        return self.time_s

    def sleep(self, seconds):
        self.time_s += seconds
