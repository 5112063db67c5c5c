"""Whether a worker is in use: by programs on its chips, by a job, or by somebody who is logged in.

What cannot be looked at counts as use. Standard library only, Python 3.8; it runs as root there.
"""

from __future__ import annotations

from pathlib import Path

from tpuctl.agent.tools import holders
from tpuctl.agent.tools.worker_requests import metadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MARKS = ((b"TPUCTL_JOB=", "a job runs"), (b"SSH_CONNECTION=", "somebody is logged in"))
"""Variables of the environment of whatever a job, or somebody over SSH, has started."""
SSH_PORT = "0016"
ESTABLISHED = "01"
SCRIPT = "instance/guest-attributes/tpuctl/startup-script-exit-code"


def use_text(proc: str = "/proc") -> str:
    """Who uses this worker, in words; empty when nobody does."""
    for found in (chip_use(), script_use(), *sessions(proc), *connections(proc)):
        if found:
            return found
    return ""


def chip_use() -> str:
    """Whether a program holds chips, or may."""
    report = holders.holder_report()
    if report["holders"] or report["unseen"]:
        return "a program holds its chips"
    return "its chips cannot be looked at" if report["blind"] else ""


def script_use() -> str:
    """Whether the startup script of a person is still running."""
    return "its startup script runs" if metadata(SCRIPT) == "running" else ""


def sessions(proc: str) -> Iterator[str]:
    """Yield why each process that is a job's or a person's is use."""
    try:
        processes = [each for each in Path(proc).iterdir() if each.name.isdigit()]
    except OSError:
        yield "its processes cannot be listed"
        return
    for process in processes:
        try:
            environment = b"\0" + (process / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        except OSError:
            yield f"process {process.name} cannot be looked at"
            continue
        yield from (text for mark, text in MARKS if b"\0" + mark in environment)


def connections(proc: str) -> Iterator[str]:
    """Yield why each connection to the worker's SSH server is use."""
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(proc, "net", name).read_text("ascii").splitlines()
        except FileNotFoundError:
            continue  # without IPv6
        except OSError:
            yield "its connections cannot be listed"
            continue
        for row in map(str.split, lines[1:]):
            if row[1].rpartition(":")[2] == SSH_PORT and row[3] == ESTABLISHED:
                yield "somebody is logged in"
