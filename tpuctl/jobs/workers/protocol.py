"""What tpuctl and the agent on a worker say to each other; docs/agent-protocol.md, version 2."""

import base64
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from tpuctl.errors import TransientError
from tpuctl.jobs.record import decoding
from tpuctl.jobs.record import record_store as records
from tpuctl.models.job import Phase, SaveWait, SwitchProof, WorkerReport

VERSION = 2
DUMP = "--dump"
PATIENT = """\
n=0
while [ ! -e "$1/status.json" ] && [ $n -lt 100 ]; do sleep 0.2; n=$((n + 1)); done
exec python3 -S "$1/agent.py" watch "$@"
"""
"""For a run that somebody else is about to begin: a shell waits, which costs next to nothing."""
FENCED_OFF = 3
"""The status of an agent's command under a fence that is not the newest."""
UNREACHED = 75
"""The status of what may go better another time: a watch of an agent that stands still, and the
stages `fetch`, `mounts` and `secrets` when what they need was not to be reached, and `chips` when
somebody else holds them."""
EXCHANGED = 65
"""The status of the stage `fetch` when the workdir in the bucket is not what was submitted."""
STEP = re.compile(rb"^[0-9.]+ step=(\d{1,15})(?!\S)", re.MULTILINE)
STEP_NUMBER = re.compile(r"[0-9]{1,15}")
MOST_STEP_TIMES = 64
"""So many rows are taken of an agent's table; it has 32."""
MOST_SAVE_WAITS = 64
"""The same of its waits for checkpoints."""
RESUMED = re.compile(rb"^[0-9.]+ resumed step=(\d{1,15})(?!\S)", re.MULTILINE)
STATUS_FIELDS = (
    "phase", "stage", "exit_status", "signal", "stopped", "terminated", "preempted", "closed",
    "message", "notice", "step", "resume_step", "metrics", "rss_bytes", "ended_s", "ran_s",
    "active_s", "traceback",
)  # fmt: skip


IN_CONTAINER = """
import json, os, sys
try:
    engine = json.load(open(sys.argv[1]))
except OSError:
    sys.exit("tpuctl: there is no container yet")
os.execvp(engine[0], engine + sys.argv[2:])
"""


def run_directory(job_id: str, attempt: int) -> str:
    """Where a run lives on its worker, below the login directory."""
    return f".tpuctl/jobs/{job_id}-a{attempt}"


def container_argv(job_id: str, attempt: int) -> tuple[str, ...]:
    """The command line before one that is to run in the container of a run with `image`."""
    path = f"{run_directory(job_id, attempt)}/engine.json"
    return ("python3", "-S", "-c", IN_CONTAINER, path, "exec", f"tpuctl-{job_id}-a{attempt}")


def agent_argv(directory: str, verb: str, *options: str) -> list[str]:
    """The command line that gives the agent of the run in a directory a verb."""
    return ["python3", "-S", f"{directory}/agent.py", verb, directory, *options]


def patient_argv(directory: str, *options: str) -> list[str]:
    """The command that watches a run, which may begin within the next 20 s."""
    return ["sh", "-c", PATIENT, "sh", directory, *options]


def log_prefix(job_id: str, attempt: int, worker_id: int) -> str:
    """The prefix of the objects with one worker's log."""
    return f"{records.job_directory(job_id)}/logs/a{attempt}/w{worker_id}"


def status_key(job_id: str, attempt: int, worker_id: int) -> str:
    """The object with a worker's final status, as JSON."""
    return f"{records.job_directory(job_id)}/status/a{attempt}/w{worker_id}"


def stacks_key(job_id: str, attempt: int, worker_id: int) -> str:
    """The object with the stacks of a run that hung, as text."""
    return f"{records.job_directory(job_id)}/stacks/a{attempt}/w{worker_id}"


def metrics_prefix(job_id: str, attempt: int, worker_id: int) -> str:
    """The prefix of the objects with one worker's samples."""
    return f"{records.job_directory(job_id)}/metrics/a{attempt}/w{worker_id}"


def ray_logs_key(job_id: str, attempt: int, worker_id: int) -> str:
    """The object with the ends of a worker's Ray logs, as .tar.gz."""
    return f"{records.job_directory(job_id)}/ray/a{attempt}/w{worker_id}"


async def read_messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The JSON lines of a `watch`; raises TransientError for other lines or protocols."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            try:
                message: dict[str, Any] = json.loads(line)
            except ValueError as error:
                raise TransientError(f"the agent sent {line[:80]!r}") from error
            spoken = message.get("protocol", VERSION)
            if spoken != VERSION:
                which = f"protocol {spoken}, this tpuctl protocol {VERSION}"
                raise TransientError(f"the agent on the worker speaks {which}")
            yield message


def log_bytes(message: Mapping[str, Any]) -> bytes:
    """The piece of log in a message."""
    if "log64" in message:
        return base64.b64decode(message["log64"])
    return str(message["log"]).encode()


def apply_status(report: WorkerReport, status: Mapping[str, Any]) -> WorkerReport:
    """A report brought up to date by the agent's status. Raises MalformedError."""
    known: dict[str, Any] = {"message": ""}  # what was last wrong with the connection is over
    known |= {key: status[key] for key in STATUS_FIELDS if status.get(key) is not None}
    if lines := status.get("last_lines"):
        known["last_lines"] = tuple(lines)
    if proof := status.get("switch"):
        known["switch"] = decoding.decode_dataclass(SwitchProof, proof)
    if status.get("step_times") is not None:
        known["step_times"] = _decode_step_times(status["step_times"])
    if status.get("save_waits") is not None:
        known["save_waits"] = _decode_save_waits(status["save_waits"])
    if "step" in known and report.step is not None:
        known["step"] = max(known["step"], report.step)
    return replace(report, **known)


def _decode_step_times(found: object) -> Mapping[str, float]:
    times: Mapping[str, float] = decoding.decode_value(Mapping[str, float], found)
    if len(times) > MOST_STEP_TIMES or not all(map(STEP_NUMBER.fullmatch, times)):
        raise decoding.MalformedError("step_times is not a table of steps")
    return times


def _decode_save_waits(found: object) -> tuple[SaveWait, ...]:
    waits: tuple[SaveWait, ...] = decoding.decode_value(tuple[SaveWait, ...], found)
    if len(waits) > MOST_SAVE_WAITS:
        raise decoding.MalformedError("save_waits has too many rows")
    return waits


def with_progress(report: WorkerReport, log: bytes) -> WorkerReport:
    """A report brought up to date by lines of the log."""
    steps, resumed = STEP.findall(log), RESUMED.findall(log)
    return replace(
        report,
        step=max([*map(int, steps), report.step or 0]) if steps else report.step,
        resume_step=int(resumed[-1]) if resumed else report.resume_step,
    )


def without_figures(report: WorkerReport) -> WorkerReport:
    """A report without what changes all the time while a program runs well."""
    return replace(report, metrics={}, rss_bytes=None, active_s=None)


def lost_report(report: WorkerReport, why: str) -> WorkerReport:
    """A report of a worker whose run has vanished."""
    return replace(report, phase=Phase.LOST, message=why)
