"""The chips of a slice, over its worker processes.

    with Mesh.connect() as mesh:
        products = [chip.matmul(x, w) for chip in mesh.chips]
        sums = mesh.all_reduce(products)

Whatever the number of workers, the results have the same bits (localsim.core.grid). A worker that
is killed, stopped or cut off is named by all others within ten seconds; one that computes for long
is waited for.
"""

import atexit
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from localsim.core import heap
from localsim.core.chip import activity
from localsim.core.chip.chip import Chip
from localsim.core.collectives import torus
from localsim.core.collectives.team import Team
from localsim.core.grid import Grid
from localsim.core.wire import slice_membership
from localsim.core.wire.exchange import Exchange
from localsim.core.wire.links import MeshError
from localsim.core.wire.peer_monitor import SILENCE_S, PeerMonitor
from localsim.core.wire.rendezvous import DATA, PULSE, Address, RunIdentity, connect_peers
from localsim.core.wire.slice_membership import SliceMembership
from localsim.guest.localsim_chips.lock import NotLoadedError
from tpuctl import catalog

__all__ = ["Mesh", "MeshError"]

MEETING_S = 9.0
"""How long `connect` waits for the other workers."""
_ALL = "chips"
_LAST_PORT = 65535


class Mesh:
    """The chips of one slice; `chips` are this worker's, `first_chip` is the first one's number."""

    def __init__(self, accelerator_type: str, exchange: Exchange) -> None:
        """The chips are dealt evenly to the workers of the exchange, in their order."""
        kind = catalog.accelerator_type(accelerator_type)
        self.accelerator_type = accelerator_type
        self.worker_id = exchange.worker_id
        self.worker_count = exchange.worker_count
        self.chip_count = kind.chips
        own = kind.chips // self.worker_count
        self.chips = tuple(Chip(kind.generation) for _ in range(own))
        self.first_chip = self.worker_id * own
        self._exchange = exchange
        self._team = Team(exchange, range(self.first_chip, self.first_chip + own))
        self._all = self.grid(**{_ALL: kind.chips})

    @classmethod
    def connect(
        cls,
        environ: Mapping[str, str] = os.environ,
        *,
        meeting_s: float = MEETING_S,
        silence_s: float = SILENCE_S,
    ) -> Self:
        """Hold this worker's chips and find the others; MeshError names who does not come.

        Peers are where the environment says, else where the metadata server does.
        """
        here = _here(environ)
        heap.keep_freed_memory()
        try:
            held = activity.hold()
        except NotLoadedError as error:
            raise MeshError(str(error)) from error
        exchange = _meet(here, environ.get("TPUCTL_ATTEMPT", "1"), meeting_s, silence_s)
        mesh = cls(here.accelerator_type, exchange)
        held.chips = mesh.chips
        atexit.register(mesh.close)
        return mesh

    def grid(self, **sizes: int) -> Grid:
        """Return named axes over all chips, the last varies fastest; raises ValueError."""
        return Grid(self.accelerator_type, self.chips, self._team, sizes)

    def coordinates(self, chip: int) -> tuple[int, int, int]:
        """Return x, y and z on the torus of chip number `chip` of the slice."""
        return torus.coordinates(self.accelerator_type, chip)

    def all_reduce(self, by_chip: Sequence[Any]) -> list[Any]:
        """Return the sum over all chips, as Grid.all_reduce."""
        return self._all.all_reduce(by_chip, _ALL)

    def reduce_scatter(self, by_chip: Sequence[Any], dim: int = 0) -> list[Any]:
        """Return for each own chip its part of the sum, as Grid.reduce_scatter."""
        return self._all.reduce_scatter(by_chip, _ALL, dim)

    def all_gather(self, by_chip: Sequence[Any], dim: int = 0) -> list[Any]:
        """Return the arrays of all chips joined, as Grid.all_gather."""
        return self._all.all_gather(by_chip, _ALL, dim)

    def all_to_all(self, by_chip: Sequence[Any], split: int = 0, concat: int = 0) -> list[Any]:
        """Give every chip a part from every chip, as Grid.all_to_all."""
        return self._all.all_to_all(by_chip, _ALL, split, concat)

    def permute(self, by_chip: Sequence[Any], shift: int = 1) -> list[Any]:
        """Return what the chip `shift` places before gives, as Grid.permute."""
        return self._all.permute(by_chip, _ALL, shift)

    def close(self, reason: str = "its program has ended") -> None:
        """Close the connections, and send the others the reason."""
        atexit.unregister(self.close)
        self._exchange.close(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self.close("its program has ended" + (f" with {kind.__name__}" if kind else ""))


def _here(environ: Mapping[str, str]) -> SliceMembership:
    """This worker's place in a slice that has such a worker; raises MeshError."""
    here = slice_membership.find_membership(environ)
    try:
        worker_count = catalog.accelerator_type(here.accelerator_type).workers
    except catalog.UnknownError as error:
        raise MeshError(str(error)) from error
    if worker_count == 1 and len(here.addresses) <= 1:
        return SliceMembership(here.accelerator_type, 0, ())
    if len(here.addresses) != worker_count or not 0 <= here.worker_id < worker_count:
        raise MeshError(
            f"{here.accelerator_type} has {worker_count} workers, but the number of addresses "
            f"told is {len(here.addresses)} and that of this worker {here.worker_id}"
        )
    return here


def _meet(here: SliceMembership, attempt: str, meeting_s: float, silence_s: float) -> Exchange:
    """The way to the other workers; raises MeshError."""
    if not here.addresses:
        return Exchange(0, {}, PeerMonitor(0, {}, silence_s=silence_s))
    identity = RunIdentity(attempt, here.accelerator_type, len(here.addresses), here.worker_id)
    addresses = [_address(each) for each in here.addresses]
    links = connect_peers(identity, addresses, time.monotonic() + meeting_s)
    pulse = PeerMonitor(here.worker_id, links[PULSE], silence_s=silence_s)
    return Exchange(here.worker_id, links[DATA], pulse)


def _address(told: str) -> Address:
    """Host and port of a worker's address; raises MeshError."""
    host, _, port = told.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LAST_PORT:
        raise MeshError(f"no address of a worker, host:port, is {told!r}")
    return host.strip("[]"), int(port)
