"""The safe fixes of the doctor: which there are, and how one is carried out."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

from tpuctl.errors import LocalIOError, NotFoundError
from tpuctl.models.health import HealthCheck, HealthState

OURS = "tpuctl"
BAD_STATES = (HealthState.FAIL, HealthState.WARN)


def safe_fixes(lines: Iterable[HealthCheck]) -> list[str]:
    """The commands that may be run without a person, each once, in the order of the lines."""
    wanted = (line.fix for line in lines if line.is_safe and line.state in BAD_STATES)
    return list(dict.fromkeys(fix for fix in wanted if fix))


def argv_of(command: str, environ: Mapping[str, str]) -> Sequence[str]:
    """The words of a command; one of tpuctl is run by this Python, wherever it is installed.

    Raises NotFoundError where there is no such program.
    """
    name, *rest = shlex.split(command)
    if name == OURS:
        return [sys.executable, "-P", "-m", "tpuctl", *rest]
    path = shutil.which(name, path=environ.get("PATH"))
    if path is None:
        raise NotFoundError(f"there is no program {name!r} to run: {command}")
    return [path, *rest]


def run_fix(command: str, environ: Mapping[str, str]) -> int:
    """Run a command as it is printed, without a shell; its exit status.

    What it prints goes to standard error. Raises NotFoundError, LocalIOError.
    """
    argv = argv_of(command, environ)
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=dict(environ), check=False
        ).returncode
    except OSError as error:
        raise LocalIOError(f"cannot run {command}: {error.strerror}") from error
