"""Which workers of a node answer by SSH, and why the others do not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl.api.ssh.keys import Access
from tpuctl.errors import RefusedError, TpuctlError, TransientError
from tpuctl.models.node import Node, Symptom, Worker
from tpuctl.models.operation import without_worker_name
from tpuctl.operations.remote.fanout import AT_ONCE

if TYPE_CHECKING:
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


def try_logins(
    api: TpuApi, node: Node, workers: Sequence[Worker], access: Access
) -> dict[int, str]:
    """Log in to each worker and run nothing; `yes`, or why that failed."""
    return asyncio.run(_try_logins(api, node, workers, access))


async def _try_logins(
    api: TpuApi, node: Node, workers: Sequence[Worker], access: Access
) -> dict[int, str]:
    from tpuctl.api.ssh.worker_connections import (
        WorkerConnections,  # ssh takes a tenth of a second to load
    )

    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(worker: Worker) -> str:
        try:
            async with gate, await connections.open(node, worker) as shell:
                done = await shell.run(["true"], timeout_s=LOGIN_TIMEOUT_S)
        except (TransientError, RefusedError) as error:
            return without_worker_name(worker.worker_id, str(error))
        return YES if done.exit_status == 0 else f"exit status {done.exit_status} of true"

    async with WorkerConnections(api, access) as connections:
        await connections.identify(node)
        found = await asyncio.gather(*map(ask, workers))
    return {worker.worker_id: answer for worker, answer in zip(workers, found, strict=True)}
