"""The directory of one simulated cloud for tests: a TPUCTL_HOME whose context `local` it is.

HOME/localsim-test.json     the marker: only what has it is deleted
     local/local            the state of the simulator
     local/local.log        what the simulator writes to standard error
     supervisors/           what tpuctl makes for the supervisor of jobs

`python -m localsim.testing.home_directory HOME` deletes one whose simulator has ended.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

MARKER = "localsim-test.json"
SCENARIO = "scenario.yaml"
KEPT = frozenset({MARKER, SCENARIO, "local"})
"""What a reset leaves in the home."""
STOP_S = 30.0


def state_directory(home: Path) -> Path:
    """The state directory of the simulator."""
    return home / "local" / "local"


def log_file(home: Path) -> Path:
    """What the simulator writes to standard error."""
    return home / "local" / "local.log"


def has_supervisor(home: Path) -> bool:
    """Whether a supervisor of jobs has ever run in this home."""
    return (home / "supervisors").is_dir()


def delete_home(home: Path) -> None:
    """Delete a home whose simulator has ended, and end the supervisor that jobs left in it."""
    if not (home / MARKER).is_file():
        return
    if has_supervisor(home):
        _stop_supervisor(home)
    delete_entry(home)


def delete_entry(path: Path) -> None:
    """Delete a file or a directory, and whatever cannot be deleted stays."""
    if path.is_dir() and not path.is_symlink():
        _make_deletable(path)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _stop_supervisor(home: Path) -> None:
    subprocess.run(
        [sys.executable, "-P", "-m", "tpuctl", "local", "down"],
        env={**os.environ, "TPUCTL_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=STOP_S,
        check=False,
    )


def _make_deletable(home: Path) -> None:
    """Make all directories writable: programs on workers may have changed their modes."""
    for parent, names, _ in os.walk(home):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink() and not os.access(path, os.W_OK | os.X_OK):
                path.chmod(0o700)


if __name__ == "__main__":
    delete_home(Path(sys.argv[1]))
