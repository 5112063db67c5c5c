"""`tpuctl node ssh-config`: the workers of a node for OpenSSH, and for editors that use it."""

import asyncio
import sys
from functools import partial
from shlex import quote
from typing import Annotated

import typer

from tpuctl.cli.shell.byte_streams import byte_writer
from tpuctl.cli.shell.options import NodeName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import accessible_node
from tpuctl.operations.remote import fanout
from tpuctl.operations.remote.fanout import WorkerReach

COLUMNS = {
    "name": lambda host: host.names[-1],
    "settings": lambda host: dict(host.settings),
}
"""Keys and order are public."""


def ssh_config(
    runtime: Runtime,
    name: NodeName,
    proxy: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Be the ProxyCommand to this worker.", hidden=True),
    ] = None,
) -> None:
    """Print an OpenSSH config block for each worker.

    Append it to ~/.ssh/config, or write it to a file that `Include` or `ssh -F` names: then
    `ssh NAME-1`, scp, rsync and the Remote-SSH of editors reach worker 1, NAME alone worker 0.
    """
    from tpuctl.operations.workers import ssh_config as operation

    node = accessible_node(runtime, name)
    if proxy is not None:
        workers = fanout.select_workers(node, proxy)
        reach = WorkerReach(runtime.tpu, runtime.access, node, workers)
        asyncio.run(_relay(runtime, reach))
        return
    reach = WorkerReach(runtime.tpu, runtime.access, node, node.workers)
    hosts = operation.ssh_hosts(reach, partial(_proxy_command, runtime, node.zone, name))
    if not runtime.output.is_table:
        runtime.output.items(hosts, COLUMNS)
        return
    for host in hosts:
        runtime.output.line(f"Host {' '.join(host.names)}")
        for keyword, value in host.settings.items():
            runtime.output.line(f"    {keyword} {value}")


async def _relay(runtime: Runtime, reach: WorkerReach) -> None:
    from tpuctl.cli.shell import terminal
    from tpuctl.operations.workers import ssh_config as operation

    await operation.relay(reach, terminal.stdin_reader(), byte_writer(runtime.out))


def _proxy_command(runtime: Runtime, zone: str, name: str, worker_id: int) -> str:
    """This command again, from any directory and environment, as the proxy to a worker."""
    argv = [sys.executable, "-P", "-m", "tpuctl", "--context", runtime.context.name]
    argv += ["--zone", zone, "--quiet", "node", "ssh-config", name, "--proxy", str(worker_id)]
    argv += ["--dialer", runtime.access.dialer] if runtime.dialer else []
    home = ["env", f"TPUCTL_HOME={runtime.home}"] if runtime.environ.get("TPUCTL_HOME") else []
    return " ".join(quote(word).replace("%", "%%") for word in [*home, *argv])
