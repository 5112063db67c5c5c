"""Measures the worker while a job runs, and sends the samples to the bucket. Python 3.8.

A job never waits for them: what the disk or the bucket does not take is dropped and counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time

from tpuctl.agent.job.logs.fork_call import call_in_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tpuctl.agent.job.objects import ObjectClient
    from tpuctl.agent.metrics.sampler import Sampler

START_S = 1.0
"""Sixteen starts may share two cores: they come first."""
FIRST_SAMPLE_S = 2.0
SAMPLE_EVERY_S = 10.0
FIRST_UPLOAD_S = 60.0
UPLOAD_EVERY_S = 1800.0
RETRY_S = 60.0
PATIENCE_S = 5.0
"""How long the end of a run waits for a sample or an upload that is under way."""
FILE = "samples.jsonl"
MOST_SAMPLES = 720
"""Kept on the disk: two hours without a bucket."""


class MetricSamples(threading.Thread):
    """Takes a sample every 10 s; an object in the bucket has those of half an hour."""

    def __init__(
        self,
        directory: str,
        objects: Callable[[], ObjectClient],
        prefix: str,
        status: Mapping[str, Any],
    ) -> None:
        """`status` is that of the run, with the step and the numbers that its program told."""
        super().__init__(daemon=True)
        self.directory = directory
        self.path = os.path.join(directory, FILE)
        self.objects = objects
        self.prefix = prefix
        self.status = status
        self.sampler: Sampler | None = None
        self.newest: Mapping[str, Any] | None = None
        self.count = 0
        """Samples in the file."""
        self.dropped = 0
        self.safe_s = 0.0
        """The time of the newest sample that the bucket has."""
        self.upload_at = time.monotonic() + FIRST_UPLOAD_S
        self.ending = threading.Event()

    def run(self) -> None:
        """Measure until `finish` is called."""
        if self.ending.wait(START_S):
            return
        from tpuctl.agent.metrics.sampler import Sampler

        self.sampler = Sampler(self.directory)
        self.sampler.sample(self.status)
        pause_s = FIRST_SAMPLE_S
        while not self.ending.wait(pause_s):
            pause_s = SAMPLE_EVERY_S
            self.take()
            if time.monotonic() >= self.upload_at:
                is_there = self.upload(is_apart=True)
                self.upload_at = time.monotonic() + (UPLOAD_EVERY_S if is_there else RETRY_S)

    def finish(self, *, is_reachable: bool) -> None:
        """Stop, and where the bucket can be reached send what is left; it is tried once."""
        self.ending.set()
        if self.ident is not None:
            self.join(PATIENCE_S)
        if not self.is_alive():
            self.take()
            if is_reachable:
                self.upload()

    def take(self) -> None:
        """Take one sample and add it to the file."""
        if self.sampler is None:
            return
        told = {"dropped": self.dropped, "safe_s": self.safe_s}
        self.newest = {**self.sampler.sample(self.status), **told}
        if self.count >= MOST_SAMPLES:
            self.dropped += 1
            return
        try:
            with open(self.path, "a", encoding="ascii") as file:
                file.write(json.dumps(self.newest) + "\n")
        except OSError:
            self.dropped += 1
            return
        self.count += 1

    def upload(self, *, is_apart: bool = False) -> bool:
        """Send the samples of the file and empty it; return whether the bucket has them."""
        if not self.count:
            return True
        newest_s = self.newest["time_s"] if self.newest else 0.0
        try:
            if is_apart:
                call_in_fork(self.send)
            else:
                self.send()
        except (OSError, ValueError):
            return False
        self.safe_s = newest_s
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        self.count = 0
        return True

    def send(self) -> int:
        """Create the object of the samples in the file; return 0. Raises OSError, ValueError."""
        from tpuctl import packed_samples

        with open(self.path, encoding="ascii") as file:
            samples = [json.loads(line) for line in file]
        data = packed_samples.pack(samples)
        key = f"{self.prefix}/{round(1000 * samples[0]['time_s']):015d}"
        self.objects().create(key, iter([data]), len(data))
        return 0
