"""The Pythons that workers have: the one that runs localsim, and the one that programs get."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from localsim.state_directory import ServeError
from localsim.workers.disk import trust

OLDEST = (3, 10)
"""The oldest that TPU VMs boot with (tpu-ubuntu2204-base)."""
_ASK_S = 30.0
_QUESTION = """
import importlib.util, json, os, sys
certifi = importlib.util.find_spec("certifi")
bundle = certifi and os.path.join(os.path.dirname(certifi.origin), "cacert.pem")
print(json.dumps([sys.version_info[:2], [sys.prefix, sys.exec_prefix, sys.base_prefix], bundle]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python of this machine, and what a worker needs of it."""

    executable: Path
    prefixes: tuple[Path, ...]
    """Its directories: a virtual environment's own, and those of the Python it was made from."""
    certifi: Path | None = None
    """The bundle of its certifi."""


def own_interpreter() -> Interpreter:
    """The Python that runs localsim."""
    prefixes = tuple(map(Path, (sys.prefix, sys.exec_prefix, sys.base_prefix)))
    return Interpreter(Path(sys.executable), prefixes, trust.certifi_file())


def find_interpreter(path: Path) -> Interpreter:
    """The Python at a path; raises ServeError where there is none that a worker could have."""
    executable = path.parent.resolve() / path.name  # a worker has no link that leads to it
    try:
        asked = subprocess.run(
            [executable, "-c", _QUESTION], capture_output=True, timeout=_ASK_S, check=True
        )
        version, prefixes, bundle = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        cause = getattr(error, "strerror", None) or "it does not run as a Python"
        raise ServeError(f"--python {path}: {cause}", 2) from None
    if tuple(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ServeError(f"--python {path}: workers need Python {oldest} or later", 2)
    if not (executable.parent / "python3").exists():
        raise ServeError(f"--python {path}: there is no python3 beside it", 2)
    certifi = Path(bundle) if bundle else None
    return Interpreter(
        executable,
        tuple(map(Path, prefixes)),
        certifi if certifi and certifi.is_file() else None,
    )
