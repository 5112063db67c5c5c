"""Jobs on simulated slices whose workers fail in every way, all at the same time."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import yaml
from clouds import Cloud, Runner, serve

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store as records
from tpuctl.models.job import Attempt, AttemptState, JobRecord

ZONE = "us-central2-b"
TYPES = {1: "v4-8", 2: "v4-16", 4: "v4-32", 8: "v4-64", 16: "v4-128", 64: "v4-512", 256: "v4-2048"}
QUICK = "provisioning_delay_s: 0.1\nacceptance_delay_s: 0.1\ndeletion_delay_s: 0.1\n"
DEADLINE_S = 90.0
LOOK_S = 0.2


@dataclass
class Gangs:
    """A simulator, its jobs by name, and what is known of them."""

    cloud: Cloud
    tpuctl: Runner
    jobs: dict[str, str] = field(default_factory=dict)

    def submit(self, name: str, workers: int, run: str, *options: str, **keys: object) -> str:
        """A job with a slice of its own, or with `--node`; its id."""
        resources = {"accelerators": TYPES[workers], "zones": [ZONE]}
        job = {"name": name, "run": run, **keys}
        if "--node" not in options:
            job["resources"] = {**resources, **keys.get("resources", {})}  # type: ignore[dict-item]
        path = self.cloud.home / f"{name}.yaml"
        path.write_text(yaml.safe_dump(job))
        done = self.tpuctl("job", "submit", str(path), *options, "--zone", ZONE, "-o", "name")
        assert done.code == 0, done.err
        self.jobs[name] = done.out.strip()
        return self.jobs[name]

    def fault(self, text: str) -> None:
        """As a person would say it: `worker n1/2: killed`."""
        done = self.tpuctl("local", "fault", text)
        assert done.code == 0, done.err

    def until(
        self, name: str, is_so: Callable[[JobRecord], bool], deadline_s: float = DEADLINE_S
    ) -> JobRecord:
        """The record, as soon as it is so."""
        last_s = time.monotonic() + deadline_s
        store = self.store()
        while True:
            found = records.load(store, self.jobs[name]).record
            if is_so(found):
                return found
            assert time.monotonic() < last_s, (found.state, found.why, found.events)
            time.sleep(LOOK_S)

    def first_attempt(self, name: str) -> Attempt:
        """The first attempt when it is known how it ends."""
        return self.until(name, lambda job: is_judged(job, 1)).attempts[0]

    def lines(self, name: str, *options: str) -> list[dict]:
        """What the bucket has of its log."""
        done = self.tpuctl("job", "logs", self.jobs[name], *options, "-o", "json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    def store(self):
        return self.runtime().store()

    def runtime(self) -> Runtime:
        return Runtime(environ={"TPUCTL_HOME": str(self.cloud.home)})


def is_judged(job: JobRecord, attempt: int) -> bool:
    """It is known how the attempt ends; its workers may still be on their way out."""
    return len(job.attempts) >= attempt and job.attempts[attempt - 1].outcome is not None


def has_ended(job: JobRecord, attempt: int) -> bool:
    """Every worker has ended or is given up, and the logs are in the bucket."""
    return len(job.attempts) >= attempt and job.attempts[attempt - 1].state == AttemptState.ENDED


def is_running(job: JobRecord) -> bool:
    """Every worker's program runs."""
    attempt = job.attempt
    return (
        job.state == "RUNNING"
        and attempt is not None
        and len(attempt.workers) == attempt.worker_count
        and all(report.phase == "running" for report in attempt.workers)
    )


def ray_python() -> str | None:
    """A Python that has Ray: that of RAY_PYTHON, else this one; None without any."""
    return os.environ.get("RAY_PYTHON") or (sys.executable if find_spec("ray") else None)


@contextmanager
def gangs(home: Path, mode: str, scenario: str = QUICK, *options: str) -> Iterator[Gangs]:
    """A simulator on real time, without any job that it leaves behind."""
    path = home / "quick.yaml"
    path.write_text(scenario)
    for cloud in serve(home, "--isolation", mode, "--offline", "--scenario", str(path), *options):
        try:
            yield Gangs(cloud, Runner(home))
        finally:
            supervisor_lock.stop_supervisor(home, "local")
