"""A real simulator as a process of its own, and the real command line as a function."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import unsynced

from tpuctl.api.control import ControlApi
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.local import local_cloud

MATRIX = pytest.mark.matrix
ISOLATIONS = ("namespace", pytest.param("process", marks=MATRIX))
"""Each way of keeping workers apart: the default one, and the one for other machines."""
STORE_KINDS = ("bucket", pytest.param("directory", marks=MATRIX))
"""Each kind of store that checkpoints lie in."""


def isolation_of(request: pytest.FixtureRequest) -> str:
    """The isolation of a fixture whose `params` are ISOLATIONS; skips where there is none."""
    if request.param == "namespace":
        request.getfixturevalue("namespaces")
    return str(request.param)


def grpc_roots() -> Path:
    """The file of certificates that gRPC trusts; whoever starts a server with TLS writes it."""
    return Path(os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"])


@dataclass(frozen=True)
class Result:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table that went to a pipe, without its headings."""
        return [line.split("\t") for line in self.out.splitlines()[1:]]

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
    """Run a simulator as the context `local` of that home, and end it.

    It waits for its disk where this process does.
    """
    directory = home / "local" / "local"
    argv = [
        sys.executable,
        "-P",
        *([unsynced.__file__] if unsynced.waits_for_no_disk() else ["-m", "localsim"]),
        "serve",
        "--state-dir",
        str(directory),
        *options,
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        line = json.loads(process.stdout.readline())
        try:
            yield Cloud(home, line, local_cloud.control_api(line))
        finally:
            process.send_signal(signal.SIGTERM)


@dataclass(frozen=True)
class Runner:
    """The command line as a function of its arguments, in this process."""

    home: Path
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time

    def __call__(self, *argv: str, stdin: str = "", environ: dict | None = None) -> Result:
        out, err = io.StringIO(), io.StringIO()
        runtime = Runtime(
            stdin=io.StringIO(stdin),
            out=out,
            err=err,
            environ={"TPUCTL_HOME": str(self.home), **(environ or {})},
            sleep=self.sleep,
            now=self.now,
        )
        return Result(main(argv, runtime), out.getvalue(), err.getvalue())
