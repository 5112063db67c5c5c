"""The clients of a context, put together as jobs need them."""

import socket
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from tpuctl.api.connect import address_quota_reader, quota_limits_reader, secret_reader
from tpuctl.api.ssh.keys import Access
from tpuctl.api.tpu.tpu import TpuApi
from tpuctl.config import Context
from tpuctl.errors import RefusedError
from tpuctl.jobs.interfaces import (
    Backends,
    LimitCheck,
    OpenShell,
    OpenStore,
    PortDialer,
    WorkerShell,
)
from tpuctl.jobs.remaining_quota import QuotaLeft, QuotaReader, quota_by_zone
from tpuctl.models.inference.service_record import ReplicaAddress
from tpuctl.models.node import Node, Worker
from tpuctl.store import Store

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_connections import WorkerConnections
    from tpuctl.api.ssh.worker_ports import WorkerPorts


def build_backends(
    context: Context,
    *,
    store: Store,
    tpu: TpuApi,
    access: Access | None,
    open_store: OpenStore,
    check_limit: LimitCheck | None = None,
) -> Backends:
    """The clients of a context, as jobs need them; without `access` nobody logs in anywhere."""
    connections = _connections(tpu, access) if access else None
    return Backends(
        context=context.name,
        zone=context.zone,
        bucket=context.bucket,
        storage_endpoint=context.worker_storage_endpoint,
        store=store,
        tpu=tpu,
        open_shell=_shell_opener(connections) if connections else _refuse_shell,
        dial_port=_port_dialer(connections, access) if connections and access else None,
        key_line=access.metadata_line if access else "",
        project=context.project,
        quota=_quota_reader(context, tpu),
        addresses=address_quota_reader(context),
        read_secret=secret_reader(context),
        open_store=open_store,
        nodes=tpu,
        check_limit=check_limit,
    )


def _connections(tpu: TpuApi, access: Access) -> "Callable[[], WorkerConnections]":
    """What logs in is imported when somebody does: a job is submitted without it."""

    @cache
    def connections() -> "WorkerConnections":
        from tpuctl.api.ssh.worker_connections import WorkerConnections

        return WorkerConnections(tpu, access)

    return connections


def _shell_opener(connections: "Callable[[], WorkerConnections]") -> OpenShell:
    async def open_shell(node: Node, worker: Worker) -> WorkerShell:
        return await connections().open_in_gang(node, worker)

    return open_shell


def _port_dialer(connections: "Callable[[], WorkerConnections]", access: Access) -> PortDialer:
    @cache
    def ports() -> "WorkerPorts":
        from tpuctl.api.ssh.worker_ports import WorkerPorts

        return WorkerPorts(access)

    async def dial_port(node: Node, worker: Worker, port: int) -> socket.socket:
        address = ReplicaAddress(
            node.zone, node.name, worker.worker_id, worker.ip_address, worker.external_ip, port
        )
        return await ports().dial(address, partial(connections().open_in_gang, node, worker))

    return dial_port


async def _refuse_shell(_node: Node, _worker: Worker) -> WorkerShell:
    raise RefusedError("this command does not log in to workers")


def _quota_reader(context: Context, tpu: TpuApi) -> QuotaReader | None:
    """How to ask for the quota of a context; None where its endpoints do not belong together."""
    read = quota_limits_reader(context)
    if read is None:
        return None

    def ask(zones: Sequence[str], accelerator_type: str, tier: str) -> Mapping[str, QuotaLeft]:
        limits = read()
        nodes, unreached = tpu.list_nodes()
        requests, unheard = tpu.list_queued_resources()
        known = [zone for zone in zones if zone not in {*unreached, *unheard}]
        return quota_by_zone(limits, nodes, requests, known, accelerator_type, tier)

    return ask
