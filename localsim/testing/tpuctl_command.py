"""The command tpuctl, run as a program of its own in the home of a simulated cloud."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localsim.testing.simulator_options import SimulatedCloudError

PROGRAM = (sys.executable, "-P", "-m", "tpuctl")
LOOK_S = 0.05
NOT_INHERITED = ("TPUCTL_", "CLOUDSDK_", "GOOGLE_", "STORAGE_EMULATOR")
"""Beginnings of variables that would lead a command to another cloud."""


@dataclass(frozen=True, slots=True)
class TpuctlResult:
    """What one command did."""

    argv: tuple[str, ...]
    """Its arguments, without `tpuctl`."""
    exit_code: int
    out: str
    """What it wrote to standard output; `err`: to standard error."""
    err: str

    def json(self) -> Any:
        """The document that it wrote to standard output, of `-o json`."""
        return json.loads(self.out)

    def check(self) -> "TpuctlResult":
        """Return itself, or raise SimulatedCloudError with what the command says is wrong."""
        if self.exit_code:
            lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
            reason = lines[-1].removeprefix("error: ") if lines else self.err.strip()
            raise SimulatedCloudError(
                f"tpuctl {' '.join(self.argv)} exits with {self.exit_code}: {reason}"
            )
        return self


def run_tpuctl(
    home: Path,
    argv: Sequence[str | Path],
    *,
    stdin: str = "",
    cwd: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    pass_time: Callable[[], object] | None = None,
) -> TpuctlResult:
    """Run a command to its end. `environ` has variables beside those of this process.

    `pass_time` is called every LOOK_S while the command runs.
    """
    arguments = tuple(map(str, argv))
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=command_environment(home, environ or {}),
    ) as command:
        try:
            out, err = _communicate(command, stdin, pass_time)
        except BaseException:  # Ctrl-C too
            command.kill()
            raise
    return TpuctlResult(arguments, command.returncode, out, err)


def _communicate(
    command: "subprocess.Popen[str]", stdin: str, pass_time: Callable[[], object] | None
) -> tuple[str, str]:
    """What a command writes until its end."""
    while pass_time is not None:
        try:
            return command.communicate(stdin, timeout=LOOK_S)
        except subprocess.TimeoutExpired:
            pass_time()
    return command.communicate(stdin)


def command_environment(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: its home is `home`, and no other cloud is named in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    return {**kept, "TPUCTL_HOME": str(home), **environ}
