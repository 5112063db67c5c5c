"""A job worth looking at: preempted once, with one slow worker, on four hosts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from system.stories.gang_cloud import Gangs, gangs, is_running

NAME = "train"
STEPS = 900
PROGRAM = f"""
import os, time
import jax
import jax.numpy as jnp
number = int(os.environ["TPUCTL_WORKER_ID"])
first = 0 if os.environ["TPUCTL_ATTEMPT"] == "1" else 20
if first:
    print(f"resumed step={{first}}", flush=True)
x = jnp.ones((256, 256))
work = jax.jit(lambda x: x @ x / 256)
for step in range(first + 1, {STEPS} + 1):
    until = time.monotonic() + (1.0 if number == 2 else 0.5)
    while time.monotonic() < until - 0.35:
        x = work(x).block_until_ready()
    time.sleep(max(0, until - time.monotonic()))
    print(f"step={{step}} steps={STEPS} loss={{2.5 * 0.99 ** step:.4f}}", flush=True)
"""


@contextmanager
def watched_job(home: Path) -> Iterator[Gangs]:
    """A cloud with the job, whose second attempt runs."""
    with gangs(home, "namespace") as here:
        (folder := home / "workdir").mkdir()
        (folder / "train.py").write_text(PROGRAM)
        here.submit(NAME, 4, "python3 train.py", workdir=str(folder))
        here.until(NAME, lambda job: is_running(job) and job.attempt.last_step >= 25)
        preempted = here.tpuctl("local", "preempt", f"{here.jobs[NAME]}-a1", "--notice", "0s")
        assert preempted.code == 0, preempted.err
        here.until(NAME, lambda job: len(job.attempts) == 2 and is_running(job))
        yield here
