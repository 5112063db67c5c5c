"""The process of a simulated cloud: it ends with the process that started it, however that ends."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localsim.testing.home_directory import MARKER, SCENARIO, delete_home, log_file
from localsim.testing.simulator_options import SimulatedCloudError, SimulatorOptions

END_S = 60.0
PROGRAM = (sys.executable, "-P", "-m", "localsim.testing.owned_simulator")


@dataclass(frozen=True, slots=True)
class RunningSimulator:
    """A simulator that is ready."""

    home: Path
    """A directory of its own, deleted at the end, that is TPUCTL_HOME for its commands."""
    endpoints: dict[str, Any]
    """Its line of endpoints (docs/localsim.md)."""


@contextmanager
def run_simulator(options: SimulatorOptions) -> Iterator[RunningSimulator]:
    """Run a simulator during the block, on free ports. Raises SimulatedCloudError.

    When the block ends, by whatever, its workers and processes have ended and its files are gone.
    """
    home = Path(tempfile.mkdtemp(prefix="localsim-"))
    try:
        process = _start(home, options)
        try:
            yield RunningSimulator(home, _read_line(process))
        finally:
            _end(process)
    finally:
        delete_home(home)  # what a simulator that was killed could not delete


def _start(home: Path, options: SimulatorOptions) -> "subprocess.Popen[bytes]":
    (home / MARKER).write_text('{"schema": 1}\n', "ascii")
    log_file(home).parent.mkdir(mode=0o700)
    settings = options.settings()
    if (keys := options.scenario_keys()) is not None:
        (home / SCENARIO).write_text(json.dumps(keys), "utf-8")  # which is YAML
        settings["scenario"] = str(home / SCENARIO)
    with log_file(home).open("wb") as log:
        return subprocess.Popen(
            [*PROGRAM, str(home), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the tests
            cwd="/",
        )


def _read_line(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """The endpoints of a simulator as soon as it is ready."""
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline() or '{"error": "it was killed"}')
    if "error" in line:
        raise SimulatedCloudError(f"the simulated cloud does not start: {line['error']}")
    return line


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Let the simulator end and delete what it has; kill it when it does not."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):
            pipe.close()
    try:
        process.wait(END_S)
    except BaseException:
        process.kill()
        process.wait()
        raise
