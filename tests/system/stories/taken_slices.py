"""Slices that are taken from a job: when it has come so far, in the middle of a save."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.interfaces import SYSTEM_CLOCKS
from tpuctl.jobs.logs.log_stream import follow
from tpuctl.models.job_log import LogLine
from tpuctl.store import Store

LATE = "storage.objects.insert: latency 1s"
"""Between a worker's files, its word that they are in, and COMMIT."""
DEADLINE_S = 60.0
LOOK_S = 0.1


def checkpoints(home: Path, name: str) -> Store:
    """What a job of that name saves in the bucket of the context."""
    runtime = Runtime(environ={"TPUCTL_HOME": str(home)})
    return runtime.outside.open_store(f"gs://{runtime.context.bucket}/runs/{name}")


def until_logged(home: Path, job: str, beginning: str) -> str:
    """The first line that begins so; `job logs -f` is how a person would see it."""
    runtime = Runtime(environ={"TPUCTL_HOME": str(home)})

    async def watch() -> str:
        async for item in follow(runtime.outside, job, clocks=SYSTEM_CLOCKS):
            if isinstance(item, LogLine) and item.text.startswith(beginning):
                return item.text
        raise AssertionError(f"no line of {job} begins with {beginning!r}")

    found = asyncio.run(watch())
    runtime.close()
    return found


def take_in_a_save(tpuctl, job: str, store: Store, steps: tuple[int, int], *where: str) -> None:
    """Take a job's first slice, without notice: one step is saved, of the next there is a file.

    A save waits for the one before it: from the first step on, every one is slow enough.
    """
    saved, begun = (f"step_{step:012}/" for step in steps)
    until_logged(tpuctl.home, job, "step=1 ")
    assert tpuctl("local", "fault", LATE).code == 0
    until(lambda: f"{saved}COMMIT" in keys(store, saved) and keys(store, begun))
    taken = tpuctl("local", "preempt", f"{job}-a1", "--no-notice", *where)
    assert taken.code == 0, taken.err
    assert tpuctl("local", "fault", "--clear").code == 0
    assert f"{begun}COMMIT" not in keys(store, begun)


def keys(store: Store, prefix: str) -> list[str]:
    return sorted(entry.key for entry in store.list(prefix))


def until(is_so: Callable[[], object]) -> None:
    """Come back as soon as it is so."""
    last_s = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < last_s
        time.sleep(LOOK_S)
