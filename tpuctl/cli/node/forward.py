"""`tpuctl node forward`: a port of this machine leads to a port of a worker."""

import asyncio
from typing import Annotated

import typer

from tpuctl.cli.shell.options import NodeName, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import attributes
from tpuctl.cli.shell.worker_access import accessible_node
from tpuctl.errors import UsageError
from tpuctl.operations.remote import fanout
from tpuctl.operations.workers import access, forwarding

COLUMNS = {
    "address": lambda port: f"{port.local_address}:{port.local_port}",
    **attributes("local_address", "local_port", worker="worker_id", remote_port="remote_port"),
}


def forward(
    runtime: Runtime,
    name: NodeName,
    ports: Annotated[
        list[str],
        typer.Argument(metavar="[LOCAL:]REMOTE...", help="Such as 8888, 9000:8888 or 0:8888."),
    ],
    worker: Annotated[
        str, typer.Option(metavar="ID", help="Which worker.", autocompletion=completed_by("worker"))
    ] = "0",
) -> None:
    """Forward ports of this machine to a worker.

    It ends with Ctrl-C.

    Like ssh -L, for programs that listen on the worker's localhost: notebooks, TensorBoard.
    LOCAL 0 is any free port. When the connection breaks, tpuctl opens it again.
    """
    if not (worker.isascii() and worker.isdecimal()):
        raise UsageError(f"{worker!r} is not one worker", hint="forward a port of each by itself")
    wanted = forwarding.parse_ports(int(worker), ports)
    node = accessible_node(runtime, name)
    fanout.select_workers(node, worker)
    again = f"tpuctl node forward {name} --worker {worker}"
    with forwarding.listen(wanted, again) as listeners:
        connect = access.tunnel_opener(runtime.tpu, runtime.access, node, int(worker))
        reporter = ForwardReporter(runtime, [port for port, _ in listeners])
        asyncio.run(forwarding.forward(listeners, connect, reporter))


class ForwardReporter:
    """Reports ready ports on stdout and everything else on stderr."""

    def __init__(self, runtime: Runtime, ports: list[forwarding.PortForward]) -> None:
        self._output = runtime.output
        self._ports = ports
        self._worker_id = ports[0].worker_id

    def ready(self) -> None:
        """Report that the ports can be used."""
        if self._output.is_table:
            for port in self._ports:
                there = f"worker {port.worker_id} port {port.remote_port}"
                self._output.line(f"{port.local_address}:{port.local_port} -> {there}")
        else:
            self._output.items(self._ports, COLUMNS)
        self._output.out.flush()

    def lost(self, why: str) -> None:
        """Report that the connection broke and is made again."""
        self._output.warn(f"worker {self._worker_id} is away: {why}; trying again")

    def back(self) -> None:
        """Report that the worker is connected again."""
        self._output.note(f"worker {self._worker_id} is there again")

    def refused(self, why: str) -> None:
        """Report a connection that the worker refused: most likely nothing listens there."""
        self._output.warn(why)
