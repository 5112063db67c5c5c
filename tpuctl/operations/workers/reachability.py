"""Which workers of a node answer by SSH, and why the others do not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl.errors import TpuctlError
from tpuctl.models.node import Node, Symptom, Worker
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote.fanout import WorkerReach, run_on_each

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell
    from tpuctl.api.tpu.tpu import TpuApi

LOGIN_TIMEOUT_S = 10.0
YES = "yes"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker as the API describes it, and whether a login works."""

    worker: Worker
    hostname: str | None
    symptoms: tuple[Symptom, ...]
    ssh: str | None = None
    """`yes`, or why not; None when it was not asked."""


def describe_workers(
    api: TpuApi, node: Node, answers: Mapping[int, str] | None = None
) -> list[WorkerStatus]:
    """Describe every worker of a node."""
    names = hostnames(api, node)
    return [
        WorkerStatus(
            worker,
            names.get(worker.worker_id),
            tuple(one for one in node.symptoms if one.worker_id == str(worker.worker_id)),
            (answers or {}).get(worker.worker_id),
        )
        for worker in node.workers
    ]


def hostnames(api: TpuApi, node: Node) -> dict[int, str]:
    """What the workers call themselves in their guest attributes, where they tell."""
    try:
        told = api.guest_attributes(node.zone, node.name, "")
    except TpuctlError:  # a policy may switch guest attributes off
        return {}
    return {
        number: value
        for number, attributes in enumerate(told)
        for key, value in attributes.items()
        if key.rpartition("/")[2] == "hostname"
    }


def try_logins(reach: WorkerReach) -> dict[int, str]:
    """Log in to each worker and run nothing; `yes`, or why that failed, by the worker's ID."""

    async def log_in(shell: Shell) -> CommandResult:
        return await shell.run(["true"], timeout_s=LOGIN_TIMEOUT_S)

    results = asyncio.run(run_on_each(reach, log_in))
    return {result.worker_id: _login_text(result) for result in results}


def _login_text(result: CommandResult) -> str:
    if result.lost is not None:
        return result.lost_because
    return YES if result.exit_status == 0 else f"exit status {result.exit_status} of true"
