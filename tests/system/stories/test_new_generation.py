"""A new accelerator generation is one JSON file: everything else follows from it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import localsim
import tpuctl
from tpuctl.jobs.local import supervisor_lock

NAME = "v8e"
ZONE = "us-east5-b"
JOB = f"""\
name: hello
resources: {{accelerators: {NAME}-4, zones: [{ZONE}]}}
run: echo hello from $TPUCTL_WORKER_ID
"""


def invented(generations: Path) -> None:
    """The file of a generation that does not exist; nobody measured it."""
    facts = (generations / "v6e.json").read_text("utf-8")
    for known, new in (("v6e-", f"{NAME}-"), ('"V6E"', '"V8E"'), ("TPUV6E", "TPUV8E")):
        facts = facts.replace(known, new)
    document = {**json.loads(facts), "announced": "2027-01", "calibration": {}}
    (generations / f"{NAME}.json").write_text(json.dumps(document))


@pytest.fixture
def run(tmp_path):
    """`run(*argv)`: the command line of a package that has one file more; what it printed."""
    for package in (tpuctl, localsim):
        source = Path(package.__file__).parent
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, tmp_path / "packages" / package.__name__, ignore=ignored)
    invented(tmp_path / "packages" / "tpuctl" / "catalog" / "data" / "generations")
    environ = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "packages"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TPUCTL_HOME": str(tmp_path / "home"),
    }

    def execute(*argv):
        command = [sys.executable, "-P", "-m", "tpuctl", "--zone", ZONE, *argv]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        return done.stdout

    execute.facts = tmp_path / "packages/tpuctl/catalog/data/generations" / f"{NAME}.json"
    yield execute
    supervisor_lock.stop_supervisor(tmp_path / "home", "local")
    execute("local", "down")


def test_it_is_listed_priced_created_queued_and_measured_and_runs_jobs(run, tmp_path):
    assert f"{NAME}-16" in run("catalog", "types", "--generation", NAME)
    assert ZONE.rpartition("-")[0] in run("catalog", "prices", "-t", f"{NAME}-16")
    created = run("node", "create", "n1", "-t", f"{NAME}-16", "-o", "json")
    assert json.loads(created)[0]["state"] == "READY"
    assert len(run("node", "exec", "n1", "--", "hostname").splitlines()) == 4
    run("qr", "create", "q1", "--type", "V8E", "--topology", "2x4", "--spot")
    assert "ACTIVE" in run("qr", "wait", "q1")
    (tmp_path / "job.yaml").write_text(JOB)
    assert "[0] hello from 0" in run("run", str(tmp_path / "job.yaml"))
    benched = run("local", "bench", "-t", f"{NAME}-1", "--limit", "1s")
    assert "bf16" in benched


def test_a_generation_that_is_gone_keeps_no_simulator_from_starting(run):
    run("node", "create", "n1", "-t", f"{NAME}-16")
    run("node", "create", "n2", "-t", "v6e-1")
    run("local", "down")
    facts = run.facts.read_text("utf-8")
    run.facts.unlink()
    (status,) = json.loads(run("local", "up") and run("local", "status", "-o", "json"))
    assert f"tpu_nodes projects/local-project/locations/{ZONE}/nodes/n1" in status["unreadable"]
    assert (status["nodes"], run("node", "list", "-o", "name").split()) == (1, ["n2"])
    run("local", "down")
    run.facts.write_text(facts)
    assert run("local", "up") and run("node", "list", "-o", "name").split() == ["n1", "n2"]
