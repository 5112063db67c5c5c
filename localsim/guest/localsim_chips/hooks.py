"""Runs what waits for a module of JAX; whatever goes wrong in it is not a program's concern."""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

DEBUG = "LOCALSIM_DEBUG"
_NOTED: set[str] = set()


def run(hook: str, module: ModuleType) -> None:
    """Install a hook on a module that has just been imported; raises SystemExit alone."""
    try:
        importlib.import_module(f"{__package__}.{hook}").install(module)
    except Exception as error:  # noqa: BLE001 -- private names of JAX; a program must never break
        note(f"{hook} is not in force: {type(error).__name__}: {error}")


def note(message: str) -> None:
    """Say it once on standard error, to those who set LOCALSIM_DEBUG."""
    if os.environ.get(DEBUG) and message not in _NOTED:
        _NOTED.add(message)
        sys.stderr.write(f"localsim: {message}\n")
