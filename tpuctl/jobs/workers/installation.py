"""What goes to a worker so that a run begins there: the agent, its configuration, its secrets.

And what its program imports of tpuctl.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from tpuctl.agent import ship
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.secrets.job_secrets import SECRET_MANAGER, references_to
from tpuctl.jobs.spec import file_predict, progress_patterns
from tpuctl.jobs.workers import library, protocol
from tpuctl.models.job import Attempt, JobRecord
from tpuctl.models.worker_numbers import WorkerSlot, slot_variables

MOST_ATTEMPTS = 1000
NOTICE_S = 30
"""From the notice of a preemption to the worker's end, where Google keeps to it."""
RAY_JOIN_S = 180.0
"""For all hosts to join a Ray cluster: as long as an attempt waits for a worker it cannot reach."""
BEGIN = "import json, sys; asked = json.load(sys.stdin); exec(asked.pop('program'))"
INSTALL = """\
import binascii, io, os
path = os.path.join(os.path.expanduser("~"), asked["directory"])
try:
    newest = int(os.readlink(path.rpartition("-a")[0] + ".fence"))
except OSError:
    newest = 0
if asked["fence"] < newest:
    sys.exit(3)
files = {}
if not os.path.exists(os.path.join(path, "status.json")):
    files = {name: text.encode() for name, text in asked["files"].items()}
    files.update((name, binascii.a2b_base64(text)) for name, text in asked["archives"].items())
umask = os.umask(0o077)
for name, data in files.items():
    os.makedirs(path, exist_ok=True)
    target = os.path.join(path, name)
    with open(target + ".new", "wb") as file:
        file.write(data)
    os.replace(target + ".new", target)
os.umask(umask)
__file__ = os.path.join(path, "agent.py")
sys.argv = [__file__, "run", path, "--watch"]
sys.path.insert(0, path)
sys.stdin = io.StringIO(json.dumps({"secrets": asked["secrets"]}))
with open(__file__) as file:
    program = compile(file.read(), __file__, "exec")
del asked, files
exec(program)
"""
"""A supervisor whose lease is over changes nothing; the files of a run that is there stay as they
are: another version of tpuctl may have begun it. The agent goes on in the same process, for the
start of a Python and its imports are half of what a run costs before it is prepared."""


@dataclass(frozen=True, slots=True)
class StartInputs:
    """What a run is given besides the record."""

    fence: int = 0
    """The lease's: an agent refuses a supervisor with a lower one."""
    secrets: Mapping[str, str] | None = field(default_factory=dict, repr=False)
    """Variable -> value, sent on standard input; None: not known, and nothing is begun."""
    switch: Mapping[str, object] | None = None
    """How a slice ends itself: for the first worker of each slice of the job's own."""


def install_argv(run: str) -> list[str]:
    """The command that reads an `installation`, begins the run, and goes on as its `watch`.

    It makes no use of the run's directory, which shows people what the process is.
    """
    return ["python3", "-S", "-c", BEGIN, run]


def install_input(
    record: JobRecord,
    attempt: Attempt,
    slot: WorkerSlot,
    inputs: StartInputs,
    backends: Backends,
    addresses: Sequence[str] = (),
) -> bytes:
    """What `install_argv` reads on standard input: nothing of it shows in a process list.

    `addresses` are the internal ones of all workers, by the workers' numbers.
    """
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
        "metrics": protocol.metrics_prefix(*run),
        "workdir": records.workdir_key_of(record),
        "workdir_sha256": record.workdir_sha256,
        "mounts": [{"path": path, "url": url} for path, url in record.spec.file_mounts.items()],
        "secrets": references_to(record.spec.secrets, SECRET_MANAGER),
        "setup": record.spec.setup,
        "image": record.spec.image,
        "shell": record.spec.shell,
        "cache": record.spec.cache,
        "progress": progress_patterns.expression_of(record.spec.progress),
        "run": record.spec.run,
        "drain_s": record.spec.serve.drain_s if record.spec.serve else None,
        "env": program_environment(record, attempt, slot, backends.bucket),
        "library": library.ARCHIVE_NAME,
        "switch": switch,
        "ray": ray_cluster(record, run, addresses),
    }
    return json.dumps(
        {
            "program": INSTALL,
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


def ray_cluster(
    record: JobRecord, run: tuple[str, int, int], addresses: Sequence[str]
) -> dict[str, object] | None:
    """What a worker's agent is to know of the job's Ray cluster; None without one."""
    wanted = record.spec.ray
    if wanted is None:
        return None
    return {
        "version": wanted.version,
        "dashboard": wanted.dashboard,
        "hosts": len(addresses),
        "head": addresses[0],
        "address": addresses[run[2]],
        "join_s": RAY_JOIN_S,
        "logs": protocol.ray_logs_key(*run),
    }


def program_environment(
    record: JobRecord, attempt: Attempt, slot: WorkerSlot, bucket: str
) -> dict[str, str]:
    """The variables that the program gets besides the worker's own."""
    spec = record.spec
    kept = spec.checkpoints
    return {
        **spec.envs,
        **file_predict.predict_environment(spec),
        **engine_variables(record),
        **slot_variables(record.job_id, attempt, slot),
        # Of checkpoints: above the fence of every attempt and job before.
        "TPUCTL_FENCE": str(int(record.submitted_s) * MOST_ATTEMPTS + attempt.number),
        "TPUCTL_BUCKET": bucket,
        "TPUCTL_NOTICE_S": str(NOTICE_S),
        **({"TPUCTL_PROGRAM_VERSION": record.workdir_sha256} if record.workdir_sha256 else {}),
        **(
            {"TPUCTL_CHECKPOINT_DIR": kept.dir, "TPUCTL_CHECKPOINT_KEEP": str(kept.keep)}
            if kept
            else {}
        ),
        **({"TPUCTL_CHECKPOINT_DIGEST": kept.digest} if kept and kept.digest else {}),
    }


def engine_variables(record: JobRecord) -> dict[str, str]:
    """The variables of a replica's engine: where it listens, and what it loads."""
    serve, replica = record.spec.serve, record.replica
    if serve is None:
        return {}
    return {
        "PORT": str(serve.port),
        **({"TPUCTL_CHECKPOINT": serve.checkpoint} if serve.checkpoint else {}),
        **({"TPUCTL_REPLICA": str(replica.number)} if replica else {}),
    }


@cache
def agent_archives() -> Mapping[str, str]:
    """The binary files that are installed beside the agent, in base64, by name."""
    archives = {library.ARCHIVE_NAME: library.build_archive(), ship.JOB_ARCHIVE: ship.job_archive()}
    return {name: base64.b64encode(data).decode() for name, data in archives.items()}
