"""kill -9, preemptions and refused requests in the middle of batch jobs, 500 and more.

No row is lost or doubled, and every object of the output is the same, byte for byte, as that of
the undisturbed run. The workers are real processes that write into a served bucket.
"""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from clouds import Cloud, serve

from tpuctl.serving.batch.batch_settings import BatchSettings
from tpuctl.store import open_store

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("BATCH_KILLS", "500"))
SEED = int(os.environ.get("BATCH_SEED", "21"))
WORKERS = 3
INTERRUPTED = (-signal.SIGKILL, -signal.SIGTERM, 143)
"""How a worker ends that is killed, is told to end before it can listen, or writes what it has."""
KINDS = ("npz", "csv", "jsonl")
FAULTS = (
    "storage.objects.insert: return-503 x2",
    "storage.objects.insert: latency 60ms x4",
    "storage.objects.insert: return-reset-connection x1",
    "storage.objects.get: return-503 x2",
    "storage.objects.list: return-503 x1",
    "storage.objects.get: return-reset-connection x1",
)
PROGRAM = """\
import time

import numpy as np


def load(checkpoint):
    return 3.0


def predict(model, batch):
    time.sleep(0.004)
    if (batch["x"] % 37 == 5).any():
        raise ValueError("no such number")
    return {"y": batch["x"] * model, "root": np.sqrt(batch["x"]).astype(np.float32)}
"""


@dataclass
class Nursery:
    """Starts workers in milliseconds."""

    process: subprocess.Popen

    def ask(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@contextmanager
def nursery():
    argv = [sys.executable, str(Path(__file__).with_name("batch_nursery.py"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Nursery(process)
        finally:
            process.stdin.close()


@dataclass
class Figures:
    kills: Counter = field(default_factory=Counter)
    faults: int = 0
    jobs: int = 0
    statuses: Counter = field(default_factory=Counter)

    @property
    def interrupted(self):
        """Workers that a signal ended before they had done: some kills come after the end."""
        return sum(self.statuses[status] for status in INTERRUPTED)


@dataclass
class BatchJob:
    """One output, and the workers that write it."""

    births: Nursery
    directory: Path
    environment: dict
    settings: BatchSettings
    figures: Figures
    pids: dict = field(default_factory=dict)
    done: set = field(default_factory=set)

    def start(self, worker):
        self.pids[worker] = self.births.ask(
            {
                **self.environment,
                "PWD": str(self.directory),
                "TPUCTL_PREDICT": self.settings.to_json(),
                "TPUCTL_PROGRAM_VERSION": "soak",
                "TPUCTL_WORKER_ID": str(worker),
                "TPUCTL_WORKER_COUNT": str(WORKERS),
            }
        )

    def look(self):
        """Start again who has failed; note who has ended well. An error is tried again."""
        for worker, pid in list(self.pids.items()):
            status = self.births.ask({"ended": pid})
            if status is None:
                continue
            self.figures.statuses[status] += 1
            del self.pids[worker]
            if status == 0:
                self.done.add(worker)
            else:
                assert status in (*INTERRUPTED, 40, 42), (status, log_of(self.directory))
                self.start(worker)

    def kill(self, kind, rng):
        """One worker; or all, with notice or none: they begin again as on a new slice."""
        victims = [rng.choice(list(self.pids))] if kind == "kill" else list(self.pids)
        if kind == "notice":
            for worker in victims:
                os.kill(self.pids[worker], signal.SIGTERM)
            time.sleep(rng.uniform(0, 0.2))
        for worker in victims:
            with suppress(ProcessLookupError):
                os.kill(self.pids[worker], signal.SIGKILL)
            self.figures.kills[kind] += 1
        if kind != "kill":
            self.done.clear()

    def finish(self, timeout_s=120):
        deadline = time.monotonic() + timeout_s
        while self.pids:
            self.look()
            assert time.monotonic() < deadline, log_of(self.directory)
            time.sleep(0.01)


def log_of(directory):
    return (directory / "worker.log").read_text()[-3000:]


def rows_of(found):
    """How many rows the outputs and rejects have, and how many different ones."""
    rows = []
    for key, data in found.items():
        name = key.partition("-")[0]
        if key.startswith("_rejects/"):
            name = key.removeprefix("_rejects/").partition("-")[0]
            rows += [(name, json.loads(line)["row"]) for line in data.splitlines()]
        elif key.endswith(".npz"):
            rows += [(name, int(row)) for row in np.load(io.BytesIO(data))["row"]]
        elif key.endswith(".jsonl"):
            rows += [(name, json.loads(line)["row"]) for line in data.splitlines()]
        elif key.endswith(".csv"):
            rows += [(name, int(line.split(b",")[0])) for line in data.splitlines()[1:]]
    return len(rows), len(set(rows))


def put_inputs(store):
    """Three formats of the same rows; returns how many rows each has."""
    for name, start, count in (("a", 0, 700), ("b", 5000, 500)):
        x = np.arange(start, start + count, dtype=np.float64)
        file = io.BytesIO()
        np.savez(file, x=x)
        store.put_if_absent(f"npz/{name}.npz", file.getvalue())
        pad = '"' + "text,\n" * 30 + '"'
        lines = "".join(f"{value},{pad}\n" for value in x)
        store.put_if_absent(f"csv/{name}.csv", f"x,pad\n{lines}".encode())
        pad = "z" * 150
        lines = "".join(json.dumps({"x": value, "pad": pad}) + "\n" for value in x)
        store.put_if_absent(f"jsonl/{name}.jsonl", lines.encode())
    return 1200


@dataclass
class Soak:
    """A served bucket, and batch jobs over the same rows in three formats."""

    cloud: Cloud
    births: Nursery
    directory: Path
    environment: dict
    figures: Figures = field(default_factory=Figures)
    rng: random.Random = field(default_factory=lambda: random.Random(SEED))

    @property
    def bucket(self):
        return f"gs://{self.cloud.line['bucket']}"

    def job(self, kind, output):
        settings = BatchSettings(
            f"{self.bucket}/in/{kind}/*.{kind}",
            f"{self.bucket}/{output}",
            program="soaked",
            unit_rows=20,
            batch=8,
        )
        job = BatchJob(self.births, self.directory, self.environment, settings, self.figures)
        for worker in range(WORKERS):
            job.start(worker)
        return job

    def contents(self, output):
        store = open_store(f"{self.bucket}/{output}")
        return {entry.key: store.get_range(entry.key) for entry in store.list()}

    def disturb(self, job):
        """Kill its workers and refuse their requests until it has ended all the same."""
        while job.pids:
            time.sleep(self.rng.uniform(0.02, 0.35))
            if self.rng.random() < 0.5:
                self.cloud.control.add_fault(self.rng.choice(FAULTS))
                self.figures.faults += 1
            if job.pids:
                job.kill(self.rng.choices(("kill", "notice", "none"), (6, 1, 1))[0], self.rng)
            job.look()
            if self.rng.random() < 0.08:
                self.cloud.control.clear_faults()
                job.finish()
        self.cloud.control.clear_faults()


@pytest.fixture
def soak(tmp_path, monkeypatch):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "soaked.py").write_text(PROGRAM)
    with contextmanager(serve)(tmp_path / "home") as cloud, nursery() as births:
        environment = {"STORAGE_EMULATOR_HOST": cloud.line["storage"], "GOOGLE_CLOUD_PROJECT": "p"}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield Soak(cloud, births, tmp_path / "w", environment)


def test_no_row_is_lost_or_doubled(soak):
    began_s, figures = time.monotonic(), soak.figures
    rows = put_inputs(open_store(f"{soak.bucket}/in"))
    calm = {}
    for kind in KINDS:
        soak.job(kind, f"calm/{kind}").finish()
        calm[kind] = soak.contents(f"calm/{kind}")
        assert rows_of(calm[kind]) == (rows, rows)
    wrong = []
    while figures.interrupted < KILLS:
        kind, output = KINDS[figures.jobs % len(KINDS)], f"soak/{figures.jobs}"
        figures.jobs += 1
        soak.disturb(soak.job(kind, output))
        found = soak.contents(output)
        if found != calm[kind] or rows_of(found) != (rows, rows):
            changed = [key for key in found if found[key] != calm[kind].get(key)]
            wrong.append((output, kind, rows_of(found), changed[:5]))
    print(
        f"{figures.interrupted} workers interrupted by {dict(figures.kills)}"
        f" in {figures.jobs} jobs, {figures.faults} faults, statuses {dict(figures.statuses)},"
        f" {time.monotonic() - began_s:.0f} s"
    )
    assert wrong == []
