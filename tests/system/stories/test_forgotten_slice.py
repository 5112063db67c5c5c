"""The laptop that never comes back: a job's own slice ends itself, and the job's end is known."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from clouds import Cloud, Runner, serve

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.record import record_store
from tpuctl.jobs.slices import switch_setup
from tpuctl.models.limits import switch_script
from tpuctl.operations.jobs import supervise

DEADLINE_S = 100.0
QUICK = {"provisioning_delay_s": 0.1, "acceptance_delay_s": 0.1, "deletion_delay_s": 0.1}
PATIENCE_S, INTERVAL_S = 1.5, 0.5
"""Slices wait for seconds where they should wait for minutes."""
IMPATIENT = f"""
import sys
from tpuctl.cli.app import main
from tpuctl.jobs.slices import switch_setup
from tpuctl.models.limits import switch_script
switch_setup.PATIENCE_S, switch_script.INTERVAL_S = {PATIENCE_S}, {INTERVAL_S}
sys.exit(main(sys.argv[1:]))
"""
UNTIL_GO = """
metadata="http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1"
account="$metadata/instance/service-accounts/default"
token=$(curl -s -H "Metadata-Flavor: Google" "$account/token" | cut -d'"' -f4)
url="${STORAGE_EMULATOR_HOST:-https://storage.googleapis.com}/storage/v1/b/local-bucket/o/go"
until curl -sf -H "Authorization: Bearer $token" "$url"; do sleep 0.3; done
"""


@contextmanager
def simulator(directory: Path, isolation: str, **scenario: object) -> Iterator[Cloud]:
    """A simulator on real time, which grants and deletes slices at once."""
    path = directory / "scenario.yaml"
    path.write_text(json.dumps({**QUICK, **scenario}))
    options = ("--isolation", isolation, "--scenario", str(path))
    with closing(serve(directory / "home", *options)) as serving:
        yield next(serving)


@contextmanager
def killed(cloud: Cloud, *argv: str) -> Iterator[None]:
    """An impatient tpuctl as a process of its own, which in the end is killed."""
    environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
    command = [sys.executable, "-c", IMPATIENT, *argv]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def outside_of(cloud: Cloud) -> Iterator[Backends]:
    """The bucket and the API of the cloud, as any other machine sees them."""
    runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
    try:
        yield runtime.outside
    finally:
        runtime.close()


def states(outside: Backends) -> list[str]:
    """The state of every job."""
    return [job.state for job in record_store.load_all(outside.store, print)]


def slices(outside: Backends) -> list[str]:
    """The name of every queued resource."""
    return [each.name for each in outside.tpu.list_queued_resources()[0]]


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def job_file(directory: Path, run: str) -> str:
    path = directory / "job.yaml"
    path.write_text(
        f"name: alone\nresources: {{accelerators: v5litepod-4}}\nrun: {json.dumps(run)}\n"
    )
    return str(path)


def test_a_slice_whose_supervisor_never_comes_back_ends_itself_when_the_job_has(
    tmp_path, isolation, monkeypatch
):
    with simulator(tmp_path, isolation) as cloud, outside_of(cloud) as outside:
        with killed(cloud, "job", "submit", job_file(tmp_path, UNTIL_GO), "--foreground"):
            until(lambda: states(outside) == ["RUNNING"])
        assert slices(outside) != []
        outside.store.put_if_absent("go", b"")
        until(lambda: slices(outside) == [])
        assert states(outside) == ["RUNNING"]
        monkeypatch.setattr(supervise, "IDLE_EXIT_S", 0.2)
        Runner(cloud.home)("supervisor", "run")  # reads in the bucket how it ended
        assert (states(outside), slices(outside)) == (["SUCCEEDED"], [])


def test_a_slice_that_may_not_delete_itself_is_told_of_with_its_price(tmp_path, monkeypatch):
    monkeypatch.setattr(switch_setup, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(switch_script, "INTERVAL_S", INTERVAL_S)
    with simulator(tmp_path, "process", worker_roles=["roles/tpu.viewer"]) as cloud:
        tpuctl = Runner(cloud.home)
        submitted = tpuctl(
            "job", "submit", job_file(tmp_path, "echo done"), "--foreground", "-o", "json"
        )
        [job] = submitted.json
        story = tpuctl("job", "describe", job["id"], "-o", "json").out
        assert "its slice cannot delete itself (may not: 403 PERMISSION_DENIED" in story
        assert "forgotten, it costs 4.80 USD/h" in story
