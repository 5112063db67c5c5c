"""What befalls a worker on purpose, brought about on its host and at its door.

The host does what its way of keeping workers apart can do; what it cannot is said on stderr.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping

from localsim.workers.doors import Door, Manner
from localsim.workers.isolation.interface import Host, NotPossibleError
from localsim.workers.isolation.process import NO_DISK, ProcessIsolation
from localsim.workers.spec import Affliction
from localsim.workers.worker import Worker

CHANGE_S = 30.0
"""A worker whose first process does not answer must not hold up the others."""
_CHANGES: Mapping[str, Callable[[Host, Affliction], Awaitable[None]]] = {
    "hangs": lambda host, wanted: host.freeze(frozen=wanted.hangs),
    "cut_off": lambda host, wanted: host.connect_network(connected=not wanted.cut_off),
    "disk_full": lambda host, wanted: host.fill_disk(full=wanted.disk_full),
    "slow": lambda host, wanted: host.slow_down(wanted.slow),
}
"""Field of an affliction -> what its change means for the host."""


_NOT_POSSIBLE: Mapping[str, Mapping[str, str]] = {ProcessIsolation.mode: {"disk_full": NO_DISK}}
"""Mode of isolation -> field of an affliction -> why it cannot be brought about."""


def require_possible(mode: str, wanted: Affliction) -> None:
    """Raise NotPossibleError for what this way of keeping workers apart cannot bring about."""
    for field, reason in _NOT_POSSIBLE.get(mode, {}).items():
        if getattr(wanted, field):
            raise NotPossibleError(reason)


async def apply(worker: Worker, door: Door, wanted: Affliction) -> None:
    """Bring a worker from what it suffers to what it shall; a killed one stays as it is."""
    was = worker.affliction
    if was == wanted or was.killed:
        return
    worker.suffer(wanted)
    if wanted.killed:
        worker.cut_power()
        # Its peers hear nothing any more, not even that their connections are closed.
        await _try(worker, worker.host.connect_network(connected=False))
        # Connections break first: no client is told an exit status.
        await asyncio.gather(door.close(), worker.host.crash())
        return
    door.behave(_manner(wanted))
    for field, change in _CHANGES.items():
        if getattr(was, field) != getattr(wanted, field):
            await _try(worker, change(worker.host, wanted))


def _manner(affliction: Affliction) -> Manner:
    """How the door of a worker that suffers so treats clients: the worst counts."""
    worst = (
        (affliction.cut_off, Manner.UNREACHABLE),
        (affliction.hangs, Manner.HANGS),
        (affliction.refuses_ssh, Manner.REFUSES),
    )
    return next((manner for is_so, manner in worst if is_so), Manner.SERVES)


async def _try(worker: Worker, change: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(CHANGE_S):
            await change
    except TimeoutError:
        sys.stderr.write(f"{worker.hostname}: it does not answer\n")
    except (NotPossibleError, OSError) as error:
        sys.stderr.write(f"{worker.hostname}: {error}\n")
