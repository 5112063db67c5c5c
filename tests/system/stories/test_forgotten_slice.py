"""The laptop that never comes back: a job's own slice ends itself, and the job's end is known."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
import requests
from clouds import Cloud, Runner, serve

DEADLINE_S = 60.0
IMPATIENT = """
import sys
from tpuctl.cli.app import main
from tpuctl.jobs.slices import switch_setup
switch_setup.PATIENCE_S, switch_setup.INTERVAL_S = 1.5, 0.2
sys.exit(main(sys.argv[1:]))
"""
"""tpuctl, whose slices wait for seconds where they should wait for minutes."""
JOB = """\
name: alone
resources: {accelerators: v5litepod-4}
run: until curl -sf "$STORAGE_EMULATOR_HOST/storage/v1/b/local-bucket/o/go"; do sleep 0.1; done
"""


@contextmanager
def started(cloud: Cloud, *argv: str) -> Iterator[subprocess.Popen]:
    """An impatient tpuctl as a process of its own, which in the end is killed."""
    environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
    command = [sys.executable, "-c", IMPATIENT, *argv]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def jobs(tpuctl: Runner) -> list[dict]:
    return tpuctl("job", "list", "-o", "json").json


def slices(tpuctl: Runner) -> list[dict]:
    return tpuctl("qr", "list", "-o", "json").json


def let_go(cloud: Cloud) -> None:
    """Write the object that the program waits for."""
    with requests.Session() as session:
        session.trust_env = False
        url = f"{cloud.line['storage']}/upload/storage/v1/b/{cloud.line['bucket']}/o"
        options = {"uploadType": "media", "name": "go"}
        assert session.post(url, params=options, data=b"", timeout=10).status_code == 200


@pytest.fixture
def job_file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return str(path)


def test_a_slice_whose_supervisor_never_comes_back_ends_itself_when_the_job_has(
    tmp_path, isolation, job_file
):
    with closing(serve(tmp_path / "home", "--isolation", isolation)) as serving:
        cloud = next(serving)
        tpuctl = Runner(cloud.home)
        with started(cloud, "job", "submit", job_file, "--foreground"):
            until(lambda: any(job["state"] == "RUNNING" for job in jobs(tpuctl)))
        assert slices(tpuctl) != []
        let_go(cloud)
        until(lambda: slices(tpuctl) == [])
        assert [job["state"] for job in jobs(tpuctl)] == ["RUNNING"]
        with started(cloud, "supervisor", "run"):  # reads in the bucket how it ended
            until(lambda: [job["state"] for job in jobs(tpuctl)] == ["SUCCEEDED"])
        assert slices(tpuctl) == []


def test_a_slice_that_may_not_delete_itself_is_told_of_with_its_price(tmp_path, job_file):
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(json.dumps({"worker_roles": ["roles/tpu.viewer"]}))
    options = ("--isolation", "process", "--scenario", str(scenario))
    with closing(serve(tmp_path / "home", *options)) as serving:
        cloud = next(serving)
        tpuctl = Runner(cloud.home)
        with started(cloud, "job", "submit", job_file, "--foreground"):
            until(lambda: any(job["state"] == "RUNNING" for job in jobs(tpuctl)))
            [job] = jobs(tpuctl)
            story = tpuctl("job", "describe", job["id"], "-o", "json").out
        assert "its slice cannot delete itself (may not: 403 PERMISSION_DENIED" in story
        assert "forgotten, it costs 4.80 USD/h" in story
