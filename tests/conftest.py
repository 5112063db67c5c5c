"""A real simulator on free ports with its clock in the test's hand, and the real command line."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tpuctl.api.control import ControlApi
from tpuctl.cli.app import main
from tpuctl.cli.runtime import Runtime
from tpuctl.jobs import seat
from tpuctl.operations import local

ROOTS = Path(tempfile.gettempdir(), f"tpuctl-tests-{os.getpid()}.pem")
"""Whom gRPC trusts in the tests; written by whoever starts a server with TLS."""


def pytest_configure() -> None:
    """gRPC looks once, before the first test, where its roots are: not yet what is in there."""
    os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(ROOTS)


@dataclass(frozen=True)
class Result:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)


@dataclass(frozen=True)
class Cloud:
    """A running simulator."""

    home: Path
    line: dict
    control: ControlApi


def serve(home: Path, *options: str) -> Iterator[Cloud]:
    """Run a simulator as the context `local` of that home, and end it."""
    directory = home / "local" / "local"
    argv = [sys.executable, "-m", "localsim", "serve", "--state-dir", str(directory), *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        line = json.loads(process.stdout.readline())
        yield Cloud(home, line, local.control(line))
        process.send_signal(signal.SIGTERM)


@dataclass(frozen=True)
class Runner:
    """The command line as a function of its arguments, in this process."""

    home: Path
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, *argv: str, stdin: str = "", environ: dict | None = None) -> Result:
        out, err = io.StringIO(), io.StringIO()
        runtime = Runtime(
            stdin=io.StringIO(stdin),
            out=out,
            err=err,
            environ={"TPUCTL_HOME": str(self.home), **(environ or {})},
            sleep=self.sleep,
        )
        return Result(main(argv, runtime), out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def manual_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """One simulator for the session, whose time stands still."""
    yield from serve(tmp_path_factory.mktemp("home"), "--manual-clock")


@pytest.fixture
def cloud(manual_cloud: Cloud) -> Cloud:
    """An empty simulated cloud whose clock the test (or a waiting command) moves."""
    manual_cloud.control.reset()
    return manual_cloud


@pytest.fixture
def tpuctl(cloud: Cloud) -> Runner:
    """`tpuctl(*argv) -> Result`; while a command waits, the simulated clock runs ahead."""
    return Runner(cloud.home, sleep=cloud.control.advance)


@pytest.fixture(scope="session")
def at_home() -> type[Runner]:
    """`at_home(directory)` is `tpuctl` with that home."""
    return Runner


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[Runner]:
    """`tpuctl` in a home of its own, with no simulator; one that a command starts is ended."""
    home = tmp_path / "home"
    yield Runner(home)
    for name in local.names(home):
        seat.end(home, name)
        local.down(home, name)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith(("TPUCTL_", "CLOUDSDK_", "GOOGLE_", "STORAGE_EMULATOR")):
            monkeypatch.delenv(variable)
