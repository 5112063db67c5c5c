"""A startup script whose outcome can be seen: Google runs it and does not report how it ended.

The metadata holds a wrapper around it (`tpuctl/agent/tools/startup_script.sh`), which puts the exit
code and the last lines into the guest attributes of each worker, under `tpuctl/`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import count

from tpuctl.errors import UsageError

KEY = "startup-script"
"""The metadata key that the guest agent of a worker runs at every boot."""
TEMPLATE = "tools/startup_script.sh"
NAMESPACE = "tpuctl"
EXIT_CODE = f"{NAMESPACE}/startup-script-exit-code"
OUTPUT = f"{NAMESPACE}/startup-script-output"
NOT_STARTED, RUNNING, EXITED, UNKNOWN = "not started", "running", "exited", "unknown"
LINES = 20
BYTES = 4000
MOST_BYTES = 256 * 1024 - 4096
"""A metadata value has 256 KiB, the wrapper included."""
_CODE = re.compile(r"[0-9]{1,3}")
_MARK = "# tpuctl: runs the script below"
_CUT_OFF = " \n\v\f\t\r"
"""What the guest agent cuts off in front, so that a script may begin with a line break."""


@dataclass(frozen=True, slots=True)
class ScriptOutcome:
    """The state of the startup script of one worker."""

    worker_id: int
    state: str
    """Not started, running, exited; unknown where the attributes cannot be read."""
    exit_code: int | None = None
    output: str = ""
    """The last lines of what it printed."""


def wrap_script(script: str) -> str:
    """A script that runs `script` unchanged and reports how it ended. Raises UsageError."""
    if len(script.encode()) > MOST_BYTES:
        raise UsageError(
            f"the startup script has {len(script.encode())} bytes",
            hint=f"{MOST_BYTES} are allowed: let it fetch the rest from Cloud Storage",
        )
    text = script.lstrip(_CUT_OFF)
    values = {
        "END": next(end for end in map("END_{}".format, count()) if end not in text),
        # Without a `#!` the guest agent's shell, bash, takes the script for one of its own.
        "RUN": "" if text.startswith("#!") else '"$(command -v bash || echo sh)" ',
        "LINES": str(LINES),
        "BYTES": str(BYTES),
        "SCRIPT": text.removesuffix("\n"),
    }
    wrapper = resources.files("tpuctl.agent").joinpath(TEMPLATE).read_text("utf-8")
    for name, value in values.items():  # the script last: what it says is not looked at
        wrapper = wrapper.replace(f"@{name}@", value)
    return wrapper


def is_wrapped(metadata: Mapping[str, str]) -> bool:
    """Whether a node's script is wrapped and so reports how it ended."""
    return _MARK in metadata.get(KEY, "")


def script_outcomes(workers: Sequence[Mapping[str, str]]) -> list[ScriptOutcome]:
    """The state of the script on every worker, from the workers' reports."""
    return [_outcome(worker_id, told) for worker_id, told in enumerate(workers)]


def _outcome(worker_id: int, attributes: Mapping[str, str]) -> ScriptOutcome:
    code = attributes.get(EXIT_CODE, "").strip()
    if not code:
        return ScriptOutcome(worker_id, NOT_STARTED)
    if _CODE.fullmatch(code):
        return ScriptOutcome(worker_id, EXITED, int(code), attributes.get(OUTPUT, ""))
    return ScriptOutcome(worker_id, RUNNING)
