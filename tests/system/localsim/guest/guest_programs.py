"""Python programs with the guest's directory on their module path, as on a worker."""

import os
import subprocess
import sys
from pathlib import Path

import localsim

GUEST = Path(localsim.__file__).parent / "guest"


def run_python(*arguments, stdin="", path=(), **variables):
    """A finished program; `path` comes behind the guest's directory."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(path, variables),
    )


def start_python(*arguments, **variables):
    """A program that runs."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment((), variables),
    )


def environment(path, variables):
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {
        **kept,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(map(str, (GUEST, *path))),
        "PYTHONDONTWRITEBYTECODE": "1",
        **variables,
    }


def package(directory, files):
    """Modules below a directory, by path, in packages that are otherwise empty."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for parent in path.relative_to(directory).parents[:-1]:
            (directory / parent / "__init__.py").touch()
