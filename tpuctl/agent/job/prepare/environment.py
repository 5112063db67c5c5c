"""The environment variables of a stage. Python 3.8."""

from __future__ import annotations

import os

from tpuctl.agent.job.state import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def agent_environment(step_file: str) -> dict[str, str]:
    """Return the worker's variables, and those that make programs report at once."""
    return {
        "PYTHONFAULTHANDLER": "1",
        **os.environ,
        # Python programs print at once: a step line in a buffer is no progress.
        "PYTHONUNBUFFERED": "1",
        "TPUCTL_STEP_FILE": step_file,
    }


def user_environment(
    directory: str, config: Mapping[str, Any], secrets: Mapping[str, str], step_file: str
) -> dict[str, str]:
    """Return the variables of `setup` and `run`: the user's, secrets, and PYTHONPATH of tpuctl."""
    found = {
        **agent_environment(step_file),
        **config["env"],
        **secrets,
        processes.MARK: directory,
    }
    # An empty entry would be the directory that a program runs in.
    paths = os.path.join(directory, config["library"]), found.get("PYTHONPATH")
    found["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return found
