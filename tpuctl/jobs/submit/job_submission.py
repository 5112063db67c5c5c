"""Submitting a job: everything it needs goes into the bucket, and a supervisor is there for it."""

import getpass
import os
import platform
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tpuctl.config import without_recording
from tpuctl.errors import LocalIOError, LockedError, PreconditionError, TransientError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.leases import lease
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.jobs.record.record_store import StoredRecord
from tpuctl.jobs.secrets import job_secrets as values
from tpuctl.jobs.submit import address_check, placement, shared_checkpoints, workdir_archive
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.models.node import Node
from tpuctl.store import Store

START_S = 20.0


@dataclass(frozen=True, slots=True)
class Submitter:
    """The person and machine that submit, and what is known there."""

    owner: str
    host_id: str = ""
    """The lasting name of this machine for the context: only there its secrets are known."""
    provides: frozenset[str] = frozenset()
    """What the context provides for `requires`."""
    regions: frozenset[str] = frozenset()
    """The regions of the context's bucket, as far as anybody may tell."""
    include: tuple[str, ...] = ()
    """Patterns of files of the workdir that are insisted on."""
    over_budget: bool = False
    """No limit of the context holds for its slices: somebody insists."""
    say: Callable[[str], None] = lambda _line: None
    """Told of what the author may not expect: files of the workdir that stay behind, addresses."""


def default_owner() -> str:
    """`USER@HOST` of whoever submits from this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have a number and no name
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def submit(
    spec: JobSpec,
    backends: Backends,
    submitter: Submitter,
    *,
    now_s: float,
    node: Node | None = None,
) -> JobRecord:
    """Write a job and its workdir into the bucket; on `node` if given, which is never torn down.

    Raises PreconditionError (what it requires, or the node's state), ConflictError (another job
    has its checkpoints), CapacityError (external addresses), UsageError, RefusedError.
    """
    written = draft_record(spec, backends, submitter, now_s=now_s, node=node)
    if spec.workdir is not None:
        with tempfile.TemporaryFile() as packed:
            digest = workdir_archive.pack(
                Path(spec.workdir),
                packed,
                submitter.include,
                secret_files=values.secret_files(spec.secrets),
                say=submitter.say,
            )
            backends.store.put_if_absent(record_store.workdir_key(written.job_id), packed)
        written = replace(written, workdir_sha256=digest)
    created = put_job(backends.store, written)
    shared_checkpoints.withdraw_if_shared(backends.store, created)
    return created.record


def put_job(store: Store, record: JobRecord) -> StoredRecord:
    """Write the record of a new job, with a lease that nobody holds.

    Raises PreconditionError when the id is taken.
    """
    if record_store.generation(store, record.job_id) is not None:
        raise PreconditionError(f"job {record.job_id!r} exists already")
    with suppress(PreconditionError):  # an earlier try came that far
        lease.offer(store, record.job_id, record.owner)
    created = record_store.create(store, record)
    lease.renew_offer(store, record.job_id, record.owner)
    return created


def draft_record(
    spec: JobSpec,
    backends: Backends,
    submitter: Submitter,
    *,
    now_s: float,
    node: Node | None = None,
) -> JobRecord:
    """The record of a job as `submit` would write it; nothing is written. Raises as `submit`."""
    if spec.requires is not None and spec.requires not in submitter.provides:
        raise PreconditionError(
            f"job requires {spec.requires!r}, which context {backends.context!r} does not provide",
            hint="run: tpuctl context list",
        )
    place = placement.place_job(spec, node, backends.zone, submitter.regions)
    for kind in place.left_out:
        submitter.say(
            f"{kind} is left out: no zone near the bucket offers it; name resources.zones"
        )
    for line in address_check.check_addresses(backends, spec, place.places):
        submitter.say(line)
    shared_checkpoints.refuse_shared_checkpoints(backends.store, spec)
    return JobRecord(
        job_id=f"{spec.name}-{secrets.token_hex(3)}",
        spec=spec,
        owner=submitter.owner,
        submitted_s=now_s,
        zone=place.zones[0],
        accelerator_type=place.accelerator_type,
        zones=place.zones,
        places=place.places,
        node=node.name if node else None,
        usd_per_hour=place.usd_per_hour,
        host_id=submitter.host_id,
        over_budget=submitter.over_budget,
    )


def ensure_supervisor(home: Path, context: str, argv: Sequence[str]) -> None:
    """See that a supervisor runs here and knows of new jobs; start one in the background if not.

    Raises LocalIOError, TransientError when it does not come up.
    """
    if supervisor_lock.is_locked(home, context):
        supervisor_lock.wake(home, context)
        return
    try:
        path = supervisor_lock.log_path(home, context)
        with os.fdopen(supervisor_lock.open_private(path, os.O_WRONLY | os.O_APPEND), "ab") as log:
            started = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**without_recording(os.environ), "TPUCTL_HOME": str(home)},
            )
    except OSError as error:
        raise LocalIOError(f"cannot start a supervisor: {error.strerror}") from error
    _wait_for_lock(started, home, context)
    # It outlives us on purpose: nobody here waits for it.
    started.returncode = 0


def _wait_for_lock(started: "subprocess.Popen[bytes]", home: Path, context: str) -> None:
    deadline = time.monotonic() + START_S
    while supervisor_lock.holder_pid(home, context) != started.pid:
        if started.poll() == LockedError.exit_code:
            return  # another one was faster
        if started.poll() is not None or time.monotonic() > deadline:
            log = supervisor_lock.log_path(home, context)
            raise TransientError(
                "the supervisor does not start; the job waits in the bucket",
                hint=f"see {log}, then run: tpuctl supervisor run",
            )
        time.sleep(0.02)
