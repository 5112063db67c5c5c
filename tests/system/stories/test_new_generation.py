"""A new accelerator generation is one JSON file: everything else follows from it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import localsim
import tpuctl
from tpuctl.jobs.local import supervisor_lock

NAME = "v8e"
ZONE = "us-east5-b"
QUICK = "provisioning_delay_s: 0.1\nacceptance_delay_s: 0.1\n"
COMMANDS = """
import io, json, sys
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    code = main(json.loads(line), Runtime(out=out, err=err))
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""
"""The command line of the package, for as many commands as there are lines."""
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


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A directory with the package, which has one file more, and its compiled modules."""
    directory = tmp_path_factory.mktemp("package")
    for each in (tpuctl, localsim):
        shutil.copytree(Path(each.__file__).parent, directory / each.__name__)
    invented(directory / "tpuctl" / "catalog" / "data" / "generations")
    return directory


@contextmanager
def commands(package: Path) -> Iterator[Callable[..., str]]:
    """`run(*argv)`: what a command of the package printed; it has read its files once."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TPUCTL_HOME": str(package / "home"),
        "TPUCTL_ZONE": ZONE,
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    argv = [sys.executable, "-P", "-c", COMMANDS]
    with subprocess.Popen(argv, text=True, env=environ, **pipes) as process:

        def run(*argv: str) -> str:
            process.stdin.write(json.dumps(argv) + "\n")
            process.stdin.flush()
            code, out, err = json.loads(process.stdout.readline())
            assert code == 0, err
            return out

        yield run
        process.stdin.close()


@pytest.fixture(scope="module")
def run(package):
    """The command line, where a node of the new generation is."""
    (package / "quick.yaml").write_text(QUICK)
    with commands(package) as run:
        run("local", "up", "--scenario", str(package / "quick.yaml"))
        run("node", "create", "n1", "-t", f"{NAME}-16")
        yield run
        supervisor_lock.stop_supervisor(package / "home", "local")
        run("local", "down")


def test_it_is_listed_priced_created_queued_and_measured_and_runs_jobs(run, tmp_path):
    assert f"{NAME}-16" in run("catalog", "types", "--generation", NAME)
    assert ZONE.rpartition("-")[0] in run("catalog", "prices", "-t", f"{NAME}-16")
    assert json.loads(run("node", "describe", "n1", "-o", "json"))["state"] == "READY"
    assert len(run("node", "exec", "n1", "--", "hostname").splitlines()) == 4
    run("qr", "create", "q1", "--type", "V8E", "--topology", "2x4", "--spot")
    assert "ACTIVE" in run("qr", "wait", "q1")
    (tmp_path / "job.yaml").write_text(JOB)
    assert "[0] hello from 0" in run("run", str(tmp_path / "job.yaml"))
    benched = run("local", "bench", "-t", f"{NAME}-1", "--limit", "0.1s")
    assert "bf16" in benched


def test_a_generation_that_is_gone_keeps_no_simulator_from_starting(run, package):
    run("node", "create", "old", "-t", "v6e-1")
    nodes = run("node", "list", "-o", "name").split()
    assert {"n1", "old"} <= set(nodes)
    up = ("local", "up", "--scenario", str(package / "quick.yaml"))
    run("local", "down")
    facts = package / "tpuctl" / "catalog" / "data" / "generations" / f"{NAME}.json"
    kept = facts.rename(package / facts.name)
    with commands(package) as run_without:
        run_without(*up)
        (status,) = json.loads(run_without("local", "status", "-o", "json"))
        assert run_without("node", "list", "-o", "name").split() == ["old"]
        run_without("local", "down")
    assert f"tpu_nodes projects/local-project/locations/{ZONE}/nodes/n1" in status["unreadable"]
    assert status["nodes"] == 1
    kept.rename(facts)
    run(*up)
    assert run("node", "list", "-o", "name").split() == nodes
