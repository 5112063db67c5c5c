"""Submitting a job: everything it needs goes into the bucket, and a supervisor is there for it."""

import getpass
import os
import platform
import secrets
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from tpuctl import catalog
from tpuctl.config import unrecorded
from tpuctl.errors import (
    LocalIOError,
    LockedError,
    PreconditionError,
    TransientError,
    UsageError,
)
from tpuctl.jobs import lease, record, seat, workdir
from tpuctl.jobs.ports import Outside
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.models.node import Node, NodeState

START_S = 20.0


def default_owner() -> str:
    """Who submits from here, in the words other people of the project will see."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have a number and no name
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def submit(
    spec: JobSpec,
    outside: Outside,
    *,
    owner: str,
    provides: frozenset[str],
    now_s: float,
    node: Node | None = None,
) -> JobRecord:
    """Write a job and its workdir into the bucket; on `node` if given, which is never torn down.

    Raises PreconditionError (what it requires, or the node's state), UsageError, RefusedError.
    """
    _check_requires(spec, outside.context, provides)
    zone, accelerator_type = _place(spec, outside, node)
    job_id = f"{spec.name}-{secrets.token_hex(3)}"
    written = JobRecord(
        job_id=job_id,
        spec=spec,
        owner=owner,
        submitted_s=now_s,
        zone=zone,
        accelerator_type=accelerator_type,
        node=node.name if node else None,
    )
    if spec.workdir is not None:
        with tempfile.TemporaryFile() as packed:
            digest = workdir.pack(Path(spec.workdir), packed)
            outside.store.put_if_absent(record.workdir_key(job_id), packed)
        written = replace(written, workdir_sha256=digest)
    lease.offer(outside.store, job_id, owner)
    created = record.create(outside.store, written).record
    lease.renew_offer(outside.store, job_id, owner)
    return created


def ensure_supervisor(home: Path, context: str, argv: Sequence[str]) -> None:
    """See that a supervisor runs here, and start one in the background if not.

    Raises LocalIOError, TransientError when it does not come up.
    """
    if seat.is_taken(home, context):
        return
    try:
        with _log(seat.log_path(home, context)) as log:
            started = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**unrecorded(os.environ), "TPUCTL_HOME": str(home)},
            )
    except OSError as error:
        raise LocalIOError(f"cannot start a supervisor: {error.strerror}") from error
    _until_seated(started, home, context)
    # It outlives us on purpose: nobody here waits for it.
    started.returncode = 0


def _until_seated(started: "subprocess.Popen[bytes]", home: Path, context: str) -> None:
    deadline = time.monotonic() + START_S
    while seat.holder(home, context) != started.pid:
        if started.poll() == LockedError.exit_code:
            return  # another one was faster
        if started.poll() is not None or time.monotonic() > deadline:
            raise TransientError(
                "the supervisor does not start: the job waits in the bucket",
                hint=f"see {seat.log_path(home, context)}, then run: tpuctl supervisor run",
            )
        time.sleep(0.02)


def _log(path: Path) -> IO[bytes]:
    return os.fdopen(seat.private(path, os.O_WRONLY | os.O_APPEND), "ab")


def _check_requires(spec: JobSpec, context: str, provides: frozenset[str]) -> None:
    if spec.requires is not None and spec.requires not in provides:
        raise PreconditionError(
            f"job requires {spec.requires!r}, which context {context!r} does not provide",
            hint="run: tpuctl context list",
        )


def _place(spec: JobSpec, outside: Outside, node: Node | None) -> tuple[str, str]:
    """The zone and accelerator type the job runs on."""
    wanted = spec.resources.accelerators
    if node is None:
        zone = spec.resources.zones[0] if spec.resources.zones else outside.zone
        if wanted is None:
            raise UsageError(
                "the job file has no resources.accelerators",
                hint="add it, or run the job on an existing slice: --node NAME",
            )
        _check_offered(wanted, zone)
        return zone, wanted
    if node.state != NodeState.READY:
        raise PreconditionError(
            f"node {node.name!r} is {node.state}, not READY",
            hint=f"run: tpuctl node wait {node.name} --zone {node.zone}",
        )
    if wanted is not None and wanted != node.accelerator_type:
        raise PreconditionError(
            f"node {node.name!r} is a {node.accelerator_type}, and the job asks for {wanted}"
        )
    return node.zone, node.accelerator_type


def _check_offered(accelerator_type: str, zone: str) -> None:
    offered = catalog.zones_of(accelerator_type)
    if zone not in offered:
        raise UsageError(
            f"{accelerator_type} is not offered in {zone}",
            hint=f"it is in: {', '.join(offered)}" if offered else "run: tpuctl catalog types",
        )
