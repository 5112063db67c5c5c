"""Event files in stock TensorBoard: `TENSORBOARD_PYTHON=tb/bin/python pytest -m soak -k stock`.

TENSORBOARD_PYTHON is a Python that has the package `tensorboard`.
"""

import json
import os
import random
import struct
import subprocess

import pytest

from tpuctl.metrics.exporters.tensorboard_runs import events_of, write_runs
from tpuctl.metrics.samples import Sample, WorkerSamples
from tpuctl.store import open_store

PYTHON = os.environ.get("TENSORBOARD_PYTHON", "")
T = 1_800_000_000.0
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
runs = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
runs.Reload()
tags = runs.Tags()["scalars"]
read = {tag: [(e.wall_time, e.step, e.value) for e in runs.Scalars(tag)] for tag in tags}
print(json.dumps(read))
"""
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not PYTHON, reason="TENSORBOARD_PYTHON does not name a Python"),
]


def samples_of(seed: int) -> list[Sample]:
    """Two thousand samples of everything, with gaps."""
    dice = random.Random(seed)
    names = ["program.loss", "host.cpu_percent", *(f"chip.hbm_used_bytes/{n}" for n in range(4))]
    return [
        Sample(
            T + 10 * index,
            {
                **{name: dice.uniform(-1e10, 1e10) for name in names if dice.random() < 0.9},
                **({"program.step": 3.0 * index} if index > 5 and dice.random() < 0.9 else {}),
                "chip.held": 1.0,
            },
        )
        for index in range(2000)
    ]


def test_stock_tensorboard_reads_every_scalar_and_step(tmp_path):
    for worker in range(4):
        samples = samples_of(worker)
        for count in (700, 1500, 2000):  # three calls while the job runs
            run = [WorkerSamples(1, worker, samples[:count])]
            write_runs(open_store(str(tmp_path)), run)
        argv = [PYTHON, "-c", READER, str(tmp_path / f"a1/w{worker}")]
        read = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
        expected: dict[str, list[list[float]]] = {}
        for event in events_of(samples):
            for tag, value in event.scalars.items():
                single = struct.unpack("<f", struct.pack("<f", value))[0]
                expected.setdefault(tag, []).append([event.wall_time_s, event.step, single])
        assert read == expected
