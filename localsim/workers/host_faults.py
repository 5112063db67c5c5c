"""Brings faults about on a worker's host and at its SSH server.

The host does what its way of keeping workers apart can do; what it cannot is said on stderr.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping

from localsim.workers.isolation.interface import NotPossibleError
from localsim.workers.isolation.modes import Host
from localsim.workers.isolation.process import CANNOT_FILL_DISK, ProcessIsolation
from localsim.workers.spec import HostFault
from localsim.workers.ssh_endpoint import SshBehaviour, SshEndpoint
from localsim.workers.worker import Worker

CHANGE_S = 30.0
"""A worker whose first process does not answer must not hold up the others."""
_CHANGES: Mapping[str, Callable[[Host, HostFault], Awaitable[None]]] = {
    "hangs": lambda host, wanted: host.freeze(frozen=wanted.hangs),
    "cut_off": lambda host, wanted: host.connect_network(connected=not wanted.cut_off),
    "disk_full": lambda host, wanted: host.fill_disk(full=wanted.disk_full),
    "slow": lambda host, wanted: host.slow_down(wanted.slow),
}
"""Field of a fault -> what its change means for the host."""


def require_possible(mode: str, wanted: HostFault) -> None:
    """Raise NotPossibleError for what this way of keeping workers apart cannot bring about."""
    if wanted.disk_full and mode == ProcessIsolation.mode:
        raise NotPossibleError(CANNOT_FILL_DISK)


async def apply_fault(worker: Worker, endpoint: SshEndpoint, wanted: HostFault) -> None:
    """Change a worker's faults to `wanted`, nothing else; a killed worker stays killed.

    What its host cannot do is printed to stderr.
    """
    current = worker.fault
    if current == wanted or current.killed:
        return
    worker.set_fault(wanted)
    if wanted.killed:
        worker.cut_power()
        # Its peers hear nothing any more, not even that their connections are closed.
        await _try(worker, worker.host.connect_network(connected=False))
        # Connections break first: no client is told an exit status.
        await asyncio.gather(endpoint.close(), worker.host.crash())
        return
    endpoint.behave(_ssh_behaviour(wanted))
    for field, change in _CHANGES.items():
        if getattr(current, field) != getattr(wanted, field):
            await _try(worker, change(worker.host, wanted))


def _ssh_behaviour(fault: HostFault) -> SshBehaviour:
    """Return how the SSH server of a worker with these faults treats clients: the worst counts."""
    worst = (
        (fault.cut_off, SshBehaviour.UNREACHABLE),
        (fault.hangs, SshBehaviour.HANGS),
        (fault.refuses_ssh, SshBehaviour.REFUSES),
    )
    return next((behaviour for is_so, behaviour in worst if is_so), SshBehaviour.SERVES)


async def _try(worker: Worker, change: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(CHANGE_S):
            await change
    except TimeoutError:
        sys.stderr.write(f"{worker.hostname}: it does not answer\n")
    except (NotPossibleError, OSError) as error:
        sys.stderr.write(f"{worker.hostname}: {error}\n")
