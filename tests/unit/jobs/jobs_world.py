"""Slices whose workers are directories, and shells to them that are real local processes."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from tpuctl.errors import ConflictError, NotFoundError, TransientError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.submit.job_submission import Submitter, submit
from tpuctl.jobs.supervisor import supervisor
from tpuctl.models.job import JobRecord, JobSpec, Resources
from tpuctl.models.node import Node, Worker
from tpuctl.models.operation import CommandFailedError, CommandResult, Operation
from tpuctl.models.queued_resource import QueuedResource
from unit.agent.bucket_server import BucketServer

ZONE = "us-west4-a"
DEADLINE_S = 30.0
DONE = Operation("operations/1", done=True)


def refuse_to_open(url: str):
    """Only the bucket of the context can be read."""
    raise TransientError(f"{url} cannot be read from here")


@dataclass
class Tpu:
    """Nodes and queued resources in memory, granted at once."""

    disks: Path
    nodes: dict[str, Node] = field(default_factory=dict)
    requests: dict[str, QueuedResource] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    workers: int = 1
    """Of each slice, whatever its type."""
    away: bool = False

    def create(self, name: str, accelerator_type: str = "v5litepod-16", **extra) -> Node:
        workers = tuple(Worker(i, f"{name}.{i}") for i in range(self.workers))
        for worker in workers:
            (self.disks / worker.ip_address).mkdir(parents=True)
        self.nodes[name] = Node(
            name, ZONE, len(self.calls), accelerator_type, "v2-alpha-tpuv5-lite", "READY",
            "spot", 0.0, workers=workers, **extra,
        )  # fmt: skip
        return self.nodes[name]

    def get_node(self, zone, name):
        return self._found(self.nodes, name)

    def update_node(self, zone, name, changes):
        self.nodes[name] = replace(self.nodes[name], **changes)
        return DONE

    def get_queued_resource(self, zone, name):
        return self._found(self.requests, name)

    def create_queued_resource(self, spec, *, request_id):
        self._ask()
        if spec.name in self.requests:
            raise ConflictError("it exists")
        self.calls.append(f"create {spec.name}")
        self.create(spec.node.name, spec.node.accelerator_type, labels=dict(spec.node.labels))
        self.requests[spec.name] = QueuedResource(
            spec.name, ZONE, "ACTIVE", "USER", (spec.node.name,), spec.node.accelerator_type,
            spec.node.runtime_version, spec.node.provisioning, 0.0,
        )  # fmt: skip
        return DONE

    def delete_queued_resource(self, zone, name, *, force):
        self._found(self.requests, name)
        self.calls.append(f"delete {name}")
        del self.requests[name]
        self.kill(name)
        self.nodes.pop(name, None)
        return DONE

    def preempt(self, name: str) -> None:
        """Without notice: every process is killed, the disks are lost."""
        self.nodes[name] = replace(self.nodes[name], state="PREEMPTED")
        if name in self.requests:
            self.requests[name] = replace(
                self.requests[name], state="SUSPENDED", initiator="SERVICE"
            )
        self.kill(name)

    def kill(self, name: str) -> None:
        for worker in self.nodes[name].workers if name in self.nodes else ():
            disk = self.disks / worker.ip_address
            for file in disk.glob(".tpuctl/jobs/*/status.json"):
                status = json.loads(file.read_text())
                for kill, pid in ((os.kill, "agent_pid"), (os.killpg, "pid")):
                    with contextlib.suppress(ProcessLookupError, KeyError):
                        kill(status[pid], signal.SIGKILL)
            shutil.rmtree(disk, ignore_errors=True)

    def _found(self, things, name):
        self._ask()
        if name not in things:
            raise NotFoundError(f"no {name}")
        return things[name]

    def _ask(self) -> None:
        if self.away:
            raise TransientError("the API is away")


class LocalShell:
    """An open connection to one worker: processes with the worker's disk as their home."""

    def __init__(self, worker: Worker, disk: Path, server: BucketServer, heard: list[str]) -> None:
        self.worker_id = worker.worker_id
        self.disk = disk
        self.heard = heard
        self.environ = {
            "HOME": str(disk), "TMPDIR": str(disk), "GCE_METADATA_HOST": server.address,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": server.endpoint,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error) -> None:
        return None

    async def run(self, argv, *, stdin=b"", timeout_s=None):
        process = await self._spawn(argv, asyncio.subprocess.PIPE)
        try:
            out, err = await process.communicate(stdin)
        finally:
            cleared(process)
        return CommandResult(self.worker_id, process.returncode or 0, out, err)

    async def stream(self, argv, *, stdin=b""):
        process = await self._spawn(argv, asyncio.subprocess.PIPE)
        try:
            process.stdin.write(stdin)
            process.stdin.write_eof()
            while chunk := await process.stdout.read(65536):
                if not self.disk.exists():
                    raise TransientError("the worker is gone")
                yield chunk
                self.heard.append(chunk.decode())
            err = await process.stderr.read()
            await process.wait()
        finally:
            cleared(process)
        if not self.disk.exists():
            raise TransientError("the worker is gone")
        if process.returncode:
            raise CommandFailedError(CommandResult(self.worker_id, process.returncode, stderr=err))

    async def _spawn(self, argv, stdin):
        if not self.disk.exists():
            raise TransientError("the worker is gone")
        spawning = asyncio.ensure_future(asyncio.create_subprocess_exec(
            *argv, cwd=self.disk, env=self.environ, stdin=stdin,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        ))  # fmt: skip
        try:
            return await asyncio.shield(spawning)
        except asyncio.CancelledError:  # half begun, it would never be cleared away
            cleared(await spawning)
            raise


def cleared(process: asyncio.subprocess.Process) -> None:
    """End it and give its pipes back, at once: whoever is cancelled again awaits nothing more."""
    transport = process._transport
    if process.returncode is None and (running := transport.get_extra_info("subprocess")):
        running.kill()
        running.wait()
    transport.close()


class World:
    """A context's outside, a supervisor, and what tests do to both."""

    def __init__(self, directory: Path, server: BucketServer) -> None:
        self.home = directory / "home"
        self.heard: list[str] = []
        self.server = server
        self.store = server.store
        self.tpu = Tpu(directory / "disks")
        self.outside = Backends(
            context="here", zone=ZONE, bucket="b", storage_endpoint=server.endpoint,
            store=self.store, tpu=self.tpu, open_shell=self.open_shell,
            key_line="tpuctl:ssh-ed25519 K", open_store=refuse_to_open,
        )  # fmt: skip

    async def open_shell(self, _node: Node, worker: Worker) -> LocalShell:
        disk = self.tpu.disks / worker.ip_address
        if not disk.exists():
            raise TransientError("no route to the worker")
        return LocalShell(worker, disk, self.server, self.heard)

    def submit(self, run: str, node: Node | None = None, **spec) -> JobRecord:
        resources = Resources() if node else Resources("v5litepod-16", use_spot=True)
        given = JobSpec(name="digits", run=run, resources=resources, **spec)
        return submit(given, self.outside, Submitter("me"), now_s=time.time(), node=node)

    async def supervise(self, idle_exit_s: float = 0.2) -> None:
        await supervisor.run(self.outside, SupervisorScope(("me",), idle_exit_s), home=self.home)

    def finish(self, job: JobRecord) -> JobRecord:
        """Supervise until the job is settled; the record as it is then."""
        asyncio.run(asyncio.wait_for(self.supervise(), DEADLINE_S))
        return self.record(job)

    def record(self, job: JobRecord) -> JobRecord:
        return records.load(self.store, job.job_id).record

    async def until(self, job: JobRecord, condition) -> JobRecord:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            found = self.record(job)
            if condition(found):
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"it never came: {found.state} {found.why} {found.events}")

    def disk(self, node: str, worker_id: int) -> Path:
        return self.tpu.disks / f"{node}.{worker_id}"

    def close(self) -> None:
        for name in list(self.tpu.nodes):
            self.tpu.kill(name)
