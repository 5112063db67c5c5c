"""Twenty short healthy jobs, of which no view may say that something is wrong: `pytest -m soak`.

It takes ten minutes. What is asked is what a person asks, while the jobs run and afterwards:
`explain`, `top --once` and `job describe`. A preemption that a job resumes from is healthy too.
"""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest
import yaml
from system.stories.gang_cloud import QUICK, TYPES, ZONE, Gangs, gangs

from tpuctl.models.job import JobRecord
from tpuctl.operations.local.templates import template_folder

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("namespaces"),
]
AT_ONCE = 4
LOOK_S = 15.0
PATIENCE_S = 900.0
SAVED_STEP = 400
LASTS_S = 75
"""Longer than the minute of samples that rates need."""
STEPS = """
import itertools, time
until = time.monotonic() + {lasts_s}
for step in itertools.count(1):
    time.sleep({step_s})
    print({line}, flush=True)
    if time.monotonic() > until:
        break
"""
JAX = """
import itertools, time
import jax, jax.numpy as jnp
x = jnp.ones((128, 128))
work = jax.jit(lambda x: x @ x / 128)
until = time.monotonic() + {lasts_s}
for step in itertools.count(1):
    x = work(x).block_until_ready()
    time.sleep(0.2)
    print(f"step={{step}} loss={{1 / step:.4f}}", flush=True)
    if time.monotonic() > until:
        break
"""
COMPILES = "import jax, time\njax.devices()\ntime.sleep(40)\n" + JAX
SAVES = """
import os, time
import numpy as np
from tpuctl.checkpoint import Checkpointer
until = time.monotonic() + {lasts_s}
state = {{"w": np.zeros((64, 1024), np.float32)}}
with Checkpointer(os.environ["TPUCTL_CHECKPOINT_DIR"], every=10) as checkpointer:
    step = 0
    while time.monotonic() < until:
        step += 1
        time.sleep(0.25)
        state["w"] += 1
        print(f"step={{step}}", flush=True)
        checkpointer.save(step, state)
"""
LINE = 'f"step={step} loss={1 / step:.3f}"'
EPOCH = 'f"epoch {step}: loss {1 / step:.3f}"'
KERAS = 'f"Epoch {step}/400\\n{step}/8 [==>...] - ETA: 1s - loss: {1 / step:.4f}", end="\\r"'
SILENT = (
    "import time\nfor n in range({lasts_s}):\n    time.sleep(1)\n    print('tick', n, flush=True)"
)
PREPARES = "import time\ntime.sleep(30)\n" + STEPS


@dataclass
class Watched:
    """The jobs under way, and what was said of them that is not so."""

    here: Gangs
    wrong: list[tuple[str, str, object]] = field(default_factory=list)
    looks: int = 0

    def look(self, name: str) -> None:
        """Ask all three views of a job."""
        job = self.here.jobs[name]
        state = self.record(name).state
        explained = self.here.tpuctl("explain", job, "-o", "json")
        described = self.here.tpuctl("job", "describe", job, "-o", "json")
        assert (explained.code, described.code) == (0, 0), (explained.err, described.err)
        self.note(name, f"explain, {state}", explained.json)
        self.note(name, f"describe, {state}", described.json["findings"])
        if state == "RUNNING":
            rows = json.loads(self.here.tpuctl("top", job, "--once", "-o", "json").out)
            self.note(name, f"top, {state}", [row for row in rows if row["findings"]])
        self.looks += 1

    def note(self, name: str, view: str, found: list) -> None:
        if found:
            self.wrong.append((name, view, found))
            print("WRONG", name, view, json.dumps(found), flush=True)

    def record(self, name: str) -> JobRecord:
        return self.here.until(name, lambda _job: True)


def paced(line: str, step_s: float) -> Callable[..., str]:
    return partial(STEPS.format, line=line, step_s=step_s)


def start(
    watched: Watched, name: str, workers: int, program: Callable[..., str], **keys: object
) -> None:
    """Submit a program that lasts LASTS_S."""
    (folder := watched.here.cloud.home / name).mkdir()
    (folder / "train.py").write_text(program(lasts_s=LASTS_S))
    watched.here.submit(name, workers, "python3 train.py", workdir=str(folder), **keys)


def digits(watched: Watched, name: str, workers: int, **envs: str) -> None:
    """Submit the template's job with as many steps as take about as long."""
    folder = watched.here.cloud.home / name
    shutil.copytree(template_folder("digits"), folder)
    job = yaml.safe_load((folder / "job.yaml").read_text())
    del job["name"]
    job["workdir"] = str(folder)
    job["envs"] |= {"STEPS": "2500", "SAVE_EVERY": "250", "BATCH": "256", "HIDDEN": "256", **envs}
    job["checkpoints"]["dir"] = f"gs://$BUCKET/runs/{name}"
    job["resources"] |= {"accelerators": TYPES[workers], "zones": [ZONE]}
    watched.here.submit(name, workers, job.pop("run"), **job)


def has_saved(job: JobRecord) -> bool:
    return job.is_ended or (job.attempt is not None and job.attempt.last_step >= SAVED_STEP)


def preempt(watched: Watched, name: str, notice: str) -> None:
    """Take the slice of the first attempt after its first checkpoint, and see it resumed."""
    here = watched.here
    here.until(name, has_saved, PATIENCE_S)
    node = f"{here.jobs[name]}-a1"
    done = here.tpuctl("local", "preempt", node, "--notice", notice, "--zone", ZONE)
    assert done.code == 0, done.err


def test_twenty_healthy_runs_have_no_finding(tmp_path):
    runs: list[tuple[str, Callable[[Watched, str], None], str]] = [
        ("digits1", lambda w, n: digits(w, n, 1), ""),
        ("digits2", lambda w, n: digits(w, n, 2), ""),
        ("taken2", lambda w, n: digits(w, n, 2), "0s"),
        ("jax1", lambda w, n: start(w, n, 1, JAX.format), ""),
        ("digits4", lambda w, n: digits(w, n, 4), ""),
        ("noticed1", lambda w, n: digits(w, n, 1), "30s"),
        ("epochs", lambda w, n: start(w, n, 1, paced(EPOCH, 0.5),
                                      progress=r"epoch (?P<step>\d+): loss (?P<loss>\S+)"), ""),
        ("keras", lambda w, n: start(w, n, 1, paced(KERAS, 2.0), progress="keras"), ""),
        ("parallel2", lambda w, n: digits(w, n, 2, MODEL_PARALLEL="4"), ""),
        ("jax2", lambda w, n: start(w, n, 2, JAX.format), ""),
        ("saves1", lambda w, n: start(w, n, 1, SAVES.format,
                                      checkpoints={"dir": f"gs://$BUCKET/runs/{n}"}), ""),
        ("prepares", lambda w, n: start(w, n, 1, partial(PREPARES.format, line=LINE, step_s=0.5)),
         ""),
        ("taken4", lambda w, n: digits(w, n, 4), "0s"),
        ("compiles", lambda w, n: start(w, n, 1, COMPILES.format), ""),
        ("silent", lambda w, n: start(w, n, 1, SILENT.format), ""),
        ("slow2", lambda w, n: start(w, n, 2, paced(LINE, 12.0)), ""),
        ("often1", lambda w, n: digits(w, n, 1, SAVE_EVERY="100"), ""),
        ("again2", lambda w, n: digits(w, n, 2, SEED="1"), ""),
        ("saves2", lambda w, n: start(w, n, 2, SAVES.format,
                                      checkpoints={"dir": f"gs://$BUCKET/runs/{n}"}), ""),
        ("fast1", lambda w, n: start(w, n, 1, paced(LINE, 0.02)), ""),
    ]  # fmt: skip
    with gangs(tmp_path, "namespace", QUICK) as here:
        watched = Watched(here)
        data = template_folder("digits") / "data" / "digits.csv.gz"
        assert here.tpuctl("data", "push", str(data), "gs://local-bucket/data/").code == 0
        for first in range(0, len(runs), AT_ONCE):
            watch_batch(watched, runs[first : first + AT_ONCE])
    print(f"{len(runs)} runs, {watched.looks} looks at all views, {len(watched.wrong)} wrong")
    assert watched.wrong == []


def watch_batch(watched: Watched, runs: list) -> None:
    """Run jobs at the same time, and look at each until the last one has ended, and once more."""
    for name, begin, _ in runs:
        begin(watched, name)
    for name, _, notice in runs:
        if notice:
            preempt(watched, name, notice)
    names = [name for name, *_ in runs]
    deadline_s = time.monotonic() + PATIENCE_S
    while open_jobs := [name for name in names if not watched.record(name).is_settled]:
        assert time.monotonic() < deadline_s, open_jobs
        for name in open_jobs:
            watched.look(name)
        time.sleep(LOOK_S)
    for name, _, notice in runs:
        found = watched.record(name)
        attempts = 2 if notice else 1
        outcomes = [str(each.outcome) for each in found.attempts]
        assert (found.state, len(outcomes)) == ("SUCCEEDED", attempts), (name, found.why, outcomes)
        watched.look(name)
        seconds = {str(part.part): round(part.seconds, 1) for part in details(watched.here, name)}
        print(f"{name}: {outcomes} {seconds}", flush=True)


def details(here: Gangs, name: str) -> tuple:
    from tpuctl.operations.slices import spending

    record = here.until(name, lambda _job: True)
    return spending.goodput_of(record, time.time()).parts
