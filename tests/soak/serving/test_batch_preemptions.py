"""Slices of batch jobs are preempted, with notice and without: the outputs stay the same."""

import io
import time

import numpy as np
import pytest
from system.stories.gang_cloud import gangs

from soak.serving.test_batch_kills import rows_of

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("namespaces"),
]
ROWS, WORKERS, ROUNDS, PREEMPTIONS = 3000, 2, 3, 2
PROGRAM = """\
import time


def load(checkpoint):
    return 3.0


def predict(model, batch):
    time.sleep(0.04)
    if (batch["x"] % 97 == 5).any():
        raise ValueError("no such number")
    return {"y": batch["x"] * model}
"""


@pytest.fixture
def here(tmp_path):
    with gangs(tmp_path, "namespace") as found:
        yield found


def submit(here, name):
    """The job of a name, over the same inputs."""
    predict = {
        "program": "soaked",
        "input": "gs://$BUCKET/in/*.npz",
        "output": f"gs://$BUCKET/{name}",
        "unit_rows": 25,
        "batch": 8,
    }
    keys = {"workdir": "work", "predict": predict, "resources": {"use_spot": True}}
    here.submit(name, WORKERS, "python3 -m tpuctl.serving.batch", **keys)


def contents(here, name):
    store = here.runtime().store(f"gs://local-bucket/{name}")
    return {entry.key: store.get_range(entry.key) for entry in store.list()}


def preempt(here, name, number, option):
    """Take the slice of an attempt in the middle of its work."""
    done = len(list(here.store().list(f"{name}/_tpuctl/done/")))

    def is_in_the_middle(job):
        units = len(list(here.store().list(f"{name}/_tpuctl/done/")))
        return len(job.attempts) == number and units > done + 3

    here.until(name, is_in_the_middle)
    taken = here.tpuctl("local", "preempt", here.jobs[name], option)
    assert taken.code == 0, taken.err


def test_a_batch_job_outlives_its_slices(here):
    (here.cloud.home / "work").mkdir()
    (here.cloud.home / "work" / "soaked.py").write_text(PROGRAM)
    store = here.runtime().store("gs://local-bucket/in")
    for name in "ab":
        file = io.BytesIO()
        np.savez(file, x=np.arange(ROWS // 2, dtype=np.float64))
        store.put_if_absent(f"{name}.npz", file.getvalue())
    submit(here, "calm")
    here.until("calm", lambda job: job.state == "SUCCEEDED", 120)
    calm = contents(here, "calm")
    assert rows_of(calm) == (ROWS, ROWS)
    wrong, began_s = [], time.monotonic()
    for number in range(ROUNDS):
        for option in ("--no-notice", "--notice=5s"):
            name = f"soak{number}{'q' if option == '--no-notice' else 'n'}"
            submit(here, name)
            for attempt in range(1, PREEMPTIONS + 1):
                preempt(here, name, attempt, option)
            job = here.until(name, lambda job: job.is_settled, 180)
            outcomes = [attempt.outcome for attempt in job.attempts]
            if job.state != "SUCCEEDED" or outcomes.count("preempted") < PREEMPTIONS:
                wrong.append((name, job.state, outcomes))
            if contents(here, name) != calm:
                wrong.append((name, rows_of(contents(here, name))))
    print(f"{2 * ROUNDS * PREEMPTIONS} preemptions, {time.monotonic() - began_s:.0f} s")
    assert wrong == []
