"""What goes to a worker so that a run begins there: the agent, its configuration, its secrets.

And what its program imports of tpuctl.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from tpuctl.agent import ship
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.secrets.job_secrets import SECRET_MANAGER, references_to
from tpuctl.jobs.workers import library, protocol
from tpuctl.models.job import Attempt, JobRecord

MOST_ATTEMPTS = 1000
NOTICE_S = 30
"""From the notice of a preemption to the worker's end, where Google keeps to it."""
INSTALL = """\
import binascii, json, os, sys
asked = json.load(sys.stdin)
path = os.path.join(os.path.expanduser("~"), asked["directory"])
try:
    newest = int(os.readlink(path.rpartition("-a")[0] + ".fence"))
except OSError:
    newest = 0
if asked["fence"] < newest:
    sys.exit(3)
program = os.path.join(path, "agent.py")
python = [sys.executable, "-S", program]
if os.path.exists(os.path.join(path, "status.json")):
    os.execv(sys.executable, [*python, "run", path, "--watch"])
umask = os.umask(0o077)
files = {name: text.encode() for name, text in asked["files"].items()}
files.update((name, binascii.a2b_base64(text)) for name, text in asked["archives"].items())
for name, data in files.items():
    target = os.path.join(path, name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target + ".new", "wb") as file:
        file.write(data)
    os.replace(target + ".new", target)
os.umask(umask)
reader, writer = os.pipe()
if not os.fork():
    os.close(reader)
    with open(writer, "w") as pipe:
        json.dump({"secrets": asked["secrets"]}, pipe)
    os._exit(0)
os.close(writer)
os.dup2(reader, 0)
os.execv(sys.executable, [*python, "run", path, "--watch"])
"""
"""A supervisor whose lease is over changes nothing; the files of a run that is there stay as they
are: another version of tpuctl may have begun it. Secrets go on through a pipe, which a process of
its own fills: it holds 64 KiB."""


@dataclass(frozen=True, slots=True)
class StartInputs:
    """What a run is given besides the record."""

    fence: int = 0
    """The lease's: an agent refuses a supervisor with a lower one."""
    secrets: Mapping[str, str] | None = field(default_factory=dict, repr=False)
    """Variable -> value, sent on standard input; None: not known, and nothing is begun."""
    switch: Mapping[str, object] | None = None
    """How a slice ends itself: for the first worker of each slice of the job's own."""


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """Which worker of the gang a run is on; worker ids count on over the slices."""

    worker_id: int
    slice_id: int = 0
    index: int = 0
    """Which worker of its slice."""


def install_argv() -> list[str]:
    """The command that reads an `installation`, begins the run, and goes on as its `watch`."""
    return ["python3", "-S", "-c", INSTALL]


def install_input(
    record: JobRecord, attempt: Attempt, slot: WorkerSlot, inputs: StartInputs, backends: Backends
) -> bytes:
    """What `install_argv` reads on standard input: nothing of it shows in a process list."""
    switch = inputs.switch if slot.index == 0 else None
    run = record.job_id, attempt.number, slot.worker_id
    config = {
        "protocol": protocol.VERSION,
        "job": record.job_id,
        "attempt": attempt.number,
        "fence": inputs.fence,
        "worker_id": slot.worker_id,
        "endpoint": backends.storage_endpoint,
        "bucket": backends.bucket,
        "logs": protocol.log_prefix(*run),
        "final": protocol.status_key(*run),
        "stacks": protocol.stacks_key(*run),
        "workdir": records.workdir_key(record.job_id) if record.workdir_sha256 else None,
        "workdir_sha256": record.workdir_sha256,
        "mounts": [{"path": path, "url": url} for path, url in record.spec.file_mounts.items()],
        "secrets": references_to(record.spec.secrets, SECRET_MANAGER),
        "setup": record.spec.setup,
        "run": record.spec.run,
        "env": program_environment(record, attempt, slot, backends.bucket),
        "library": library.ARCHIVE_NAME,
        "switch": switch,
    }
    return json.dumps(
        {
            "directory": protocol.run_directory(record.job_id, attempt.number),
            "fence": inputs.fence,
            "files": {
                **ship.job_files(with_switch=switch is not None),
                "config.json": json.dumps(config),
            },
            "archives": agent_archives(),
            "secrets": dict(inputs.secrets or {}),
        }
    ).encode()


def program_environment(
    record: JobRecord, attempt: Attempt, slot: WorkerSlot, bucket: str
) -> dict[str, str]:
    """The variables that the program gets besides the worker's own."""
    spec = record.spec
    kept = spec.checkpoints
    return {
        **spec.envs,
        "TPUCTL_JOB": record.job_id,
        "TPUCTL_ATTEMPT": str(attempt.number),
        # Of checkpoints: above the fence of every attempt and job before.
        "TPUCTL_FENCE": str(int(record.submitted_s) * MOST_ATTEMPTS + attempt.number),
        "TPUCTL_WORKER_ID": str(slot.worker_id),
        "TPUCTL_WORKER_COUNT": str(attempt.worker_count),
        "TPUCTL_SLICE_ID": str(slot.slice_id),
        "TPUCTL_SLICE_COUNT": str(attempt.slices),
        "TPUCTL_BUCKET": bucket,
        "TPUCTL_NOTICE_S": str(NOTICE_S),
        **({"TPUCTL_PROGRAM_VERSION": record.workdir_sha256} if record.workdir_sha256 else {}),
        **(
            {"TPUCTL_CHECKPOINT_DIR": kept.dir, "TPUCTL_CHECKPOINT_KEEP": str(kept.keep)}
            if kept
            else {}
        ),
    }


@cache
def agent_archives() -> Mapping[str, str]:
    """The binary files that are installed beside the agent, in base64, by name."""
    return {library.ARCHIVE_NAME: base64.b64encode(library.build_archive()).decode()}
