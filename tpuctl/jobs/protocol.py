"""What tpuctl and the agent on a worker say to each other; docs/agent-protocol.md, version 1."""

import base64
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

from tpuctl.errors import TransientError
from tpuctl.jobs import record as records
from tpuctl.models.job import Attempt, JobRecord, Phase, WorkerReport

VERSION = 1
MOST_ATTEMPTS = 1000
INSTALL = """\
import json, os, sys
asked = json.load(sys.stdin)
path = os.path.join(os.path.expanduser("~"), asked["directory"])
umask = os.umask(0o077)
os.makedirs(path, exist_ok=True)
for name, text in asked["files"].items():
    target = os.path.join(path, name)
    with open(target + ".new", "w") as file:
        file.write(text)
    os.replace(target + ".new", target)
os.umask(umask)
program = os.path.join(path, "agent.py")
os.execv(sys.executable, [sys.executable, program, "run", path])
"""
STEP = re.compile(rb"^[0-9.]+ step=(\d{1,15})(?!\S)", re.MULTILINE)
RESUMED = re.compile(rb"^[0-9.]+ resumed step=(\d{1,15})(?!\S)", re.MULTILINE)
REPORTED = (
    "phase", "stage", "exit_status", "signal", "stopped", "terminated", "preempted", "closed",
    "step", "resume_step", "metrics", "rss_bytes",
)  # fmt: skip


def run_directory(job_id: str, attempt: int) -> str:
    """Where a run lives on its worker, below the login directory."""
    return f".tpuctl/jobs/{job_id}-a{attempt}"


def install_argv() -> list[str]:
    """The command that reads an `installation` on stdin, writes it down and starts the agent."""
    return ["python3", "-c", INSTALL]


def installation(
    record: JobRecord, attempt: Attempt, worker_id: int, *, endpoint: str, bucket: str
) -> bytes:
    """The agent and its configuration; on stdin, so that nothing of it shows in a process list."""
    config = {
        "protocol": VERSION,
        "job": record.job_id,
        "endpoint": endpoint,
        "bucket": bucket,
        "logs": log_prefix(record.job_id, attempt.number, worker_id),
        "workdir": records.workdir_key(record.job_id) if record.workdir_sha256 else None,
        "workdir_sha256": record.workdir_sha256,
        "setup": record.spec.setup,
        "run": record.spec.run,
        "env": environment(record, attempt, worker_id, bucket),
    }
    program = resources.files("tpuctl").joinpath("agent", "agent.py").read_text("utf-8")
    return json.dumps(
        {
            "directory": run_directory(record.job_id, attempt.number),
            "files": {"agent.py": program, "config.json": json.dumps(config)},
        }
    ).encode()


def environment(record: JobRecord, attempt: Attempt, worker_id: int, bucket: str) -> dict[str, str]:
    """What the program finds in its environment besides the worker's own."""
    spec = record.spec
    kept = spec.checkpoints
    return {
        **spec.envs,
        "TPUCTL_JOB": record.job_id,
        "TPUCTL_ATTEMPT": str(attempt.number),
        "TPUCTL_FENCE": str(fence(record, attempt)),
        "TPUCTL_WORKER_ID": str(worker_id),
        "TPUCTL_WORKER_COUNT": str(attempt.worker_count),
        "TPUCTL_BUCKET": bucket,
        **(
            {"TPUCTL_CHECKPOINT_DIR": kept.dir, "TPUCTL_CHECKPOINT_KEEP": str(kept.keep)}
            if kept
            else {}
        ),
    }


def fence(record: JobRecord, attempt: Attempt) -> int:
    """Above that of every earlier attempt, of this job or of one submitted before it."""
    return int(record.submitted_s) * MOST_ATTEMPTS + attempt.number


def agent_argv(job_id: str, attempt: int, verb: str, *options: str) -> list[str]:
    """A command to the agent of a run."""
    directory = run_directory(job_id, attempt)
    return ["python3", f"{directory}/agent.py", verb, directory, *options]


def log_prefix(job_id: str, attempt: int, worker_id: int) -> str:
    """Where the log segments of one worker lie."""
    return f"{records.directory(job_id)}/logs/a{attempt}/w{worker_id}"


async def messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The JSON lines of a `watch`; raises TransientError when they are none of ours."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            try:
                message: dict[str, Any] = json.loads(line)
            except ValueError as error:
                raise TransientError(f"the agent says {line[:80]!r}") from error
            if message.get("protocol", VERSION) > VERSION:
                raise TransientError("the agent on the worker is newer than this tpuctl")
            yield message


def log_bytes(message: Mapping[str, Any]) -> bytes:
    """The piece of log that a message carries."""
    if "log64" in message:
        return base64.b64decode(message["log64"])
    return str(message["log"]).encode()


def reported(report: WorkerReport, status: Mapping[str, Any]) -> WorkerReport:
    """A report brought up to date by the agent's status."""
    known = {key: status[key] for key in REPORTED if status.get(key) is not None}
    if "step" in known and report.step is not None:
        known["step"] = max(known["step"], report.step)
    return replace(report, **known)


def with_progress(report: WorkerReport, log: bytes) -> WorkerReport:
    """A report brought up to date by lines of the log."""
    steps, resumed = STEP.findall(log), RESUMED.findall(log)
    return replace(
        report,
        step=max([*map(int, steps), report.step or 0]) if steps else report.step,
        resume_step=int(resumed[-1]) if resumed else report.resume_step,
    )


def lost(report: WorkerReport, why: str) -> WorkerReport:
    """A report of a worker whose run has vanished."""
    return replace(report, phase=Phase.LOST, message=why)
