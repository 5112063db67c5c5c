"""The chips of a slice, over its worker processes: a sum in one fixed order on every chip.

Worker 0 receives every chip's arrays, adds them chip after chip, and sends the sum to all. So the
result depends neither on who is faster nor on how many workers the chips are spread over.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from localsim.core import activity, place
from localsim.core.chip import Chip, Counters
from localsim.core.links import ARRAYS, LOST, Link, LinkError, give_up
from localsim.core.meeting import Identity, MeshError, call, receive_callers
from localsim.core.numerics import F32
from localsim.core.place import Place, PlaceError
from localsim.guest.localsim_chips.lock import NotLoadedError
from tpuctl import catalog
from tpuctl.perfmodel import chip as model

__all__ = ["Mesh", "MeshError"]

MEETING_S = 9.0
SILENCE_S = 8.0
"""How long worker 0 bears a silent one."""
TELLING_S = 1.5
"""The others wait so much longer: worker 0 gives up first and tells them who is lost."""


class Mesh:
    """The chips of one slice; `chips` are those of this worker."""

    def __init__(
        self,
        accelerator_type: str,
        worker_id: int,
        links: Sequence[Link],
        *,
        silence_s: float = SILENCE_S,
    ) -> None:
        """Links lead to workers 1, 2, ... on worker 0, and to worker 0 on the others."""
        kind = catalog.accelerator_type(accelerator_type)
        self.accelerator_type = accelerator_type
        self.worker_id = worker_id
        self.worker_count = kind.workers
        self.chip_count = kind.chips
        self.chips = tuple(Chip(kind.generation) for _ in range(kind.chips_per_worker))
        self.first_chip = worker_id * kind.chips_per_worker
        self._links = tuple(links)
        self._silence_s = silence_s

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
        held = _hold()
        links = _meet(here, environ.get("TPUCTL_ATTEMPT", "1"), time.monotonic() + meeting_s)
        mesh = cls(here.accelerator_type, here.worker_id, links, silence_s=silence_s)
        held.chips = mesh.chips
        return mesh

    def all_reduce(self, arrays_by_chip: Sequence[Sequence[NDArray[Any]]]) -> list[F32]:
        """Sum, array by array, what each chip of the slice gives; the same lists of shapes."""
        if len(arrays_by_chip) != len(self.chips):
            raise ValueError(f"{len(self.chips)} chips, but arrays of {len(arrays_by_chip)}")
        shapes = [array.shape for array in arrays_by_chip[0]]
        own = np.stack([_flat(arrays) for arrays in arrays_by_chip])
        self._charge(own[0].nbytes)
        total = self._gather_and_send(own) if self.worker_id == 0 else self._send_and_receive(own)
        return list(_cut(total, shapes))

    def close(self) -> None:
        """End the connections."""
        for link in self._links:
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _gather_and_send(self, own: F32) -> F32:
        total = _sum(np.zeros_like(own[0]), own)
        deadline_s = time.monotonic() + self._silence_s
        for worker_id, link in enumerate(self._links, start=1):
            try:
                kind, body = link.receive(deadline_s, size_bytes=own.nbytes)
            except LinkError as error:
                self._lose(worker_id, str(error))
            if kind != ARRAYS:
                self._lose(worker_id, "it gave up")
            total = _sum(total, np.frombuffer(body, np.float32).reshape(own.shape))
        answer = total.tobytes()
        deadline_s = time.monotonic() + self._silence_s
        for worker_id, link in enumerate(self._links, start=1):
            try:
                link.send(ARRAYS, answer, deadline_s)
            except LinkError as error:
                self._lose(worker_id, str(error))
        return total

    def _send_and_receive(self, own: F32) -> F32:
        (link,) = self._links
        deadline_s = time.monotonic() + self._silence_s + TELLING_S
        try:
            link.send(ARRAYS, own.tobytes(), deadline_s)
            kind, body = link.receive(deadline_s, size_bytes=own[0].nbytes)
        except LinkError as error:
            self.close()
            raise MeshError(f"worker 0 is lost: {error}") from error
        if kind == LOST:
            self.close()
            raise MeshError(body.decode())
        return np.frombuffer(body, np.float32).copy()

    def _lose(self, worker_id: int, reason: str) -> NoReturn:
        """Tell the others who is lost, then fail."""
        message = f"worker {worker_id} is lost: {reason}"
        self._links[worker_id - 1].close()
        give_up((link for other, link in enumerate(self._links, 1) if other != worker_id), message)
        raise MeshError(message)

    def _charge(self, size_bytes: int) -> None:
        estimate = model.all_reduce(self.accelerator_type, size_bytes)
        sent_bytes = 2 * size_bytes * (self.chip_count - 1) // self.chip_count
        for chip in self.chips:
            chip.charge(Counters(ici_bytes=sent_bytes, modelled_s=estimate.value_s))


def _here(environ: Mapping[str, str]) -> Place:
    """Where this worker is, in a slice that has such a worker; raises MeshError."""
    try:
        here = place.find(environ)
    except PlaceError as error:
        raise MeshError(str(error)) from error
    worker_count = catalog.accelerator_type(here.accelerator_type).workers
    if worker_count == 1 and len(here.addresses) <= 1:
        return Place(here.accelerator_type, 0, ())
    if len(here.addresses) != worker_count or not 0 <= here.worker_id < worker_count:
        raise MeshError(
            f"{here.accelerator_type} has {worker_count} workers, but the number of addresses "
            f"told is {len(here.addresses)} and that of this worker {here.worker_id}"
        )
    return here


def _hold() -> activity.Activity:
    """Hold the chips until the process ends; raises MeshError."""
    try:
        return activity.hold()
    except NotLoadedError as error:
        raise MeshError(str(error)) from error


def _meet(here: Place, attempt: str, deadline_s: float) -> Sequence[Link]:
    """The links to the other workers; raises MeshError."""
    if not here.addresses:
        return ()
    identity = Identity(attempt, len(here.addresses), here.worker_id)
    host, _, port = here.addresses[0].rpartition(":")
    if here.worker_id == 0:
        return receive_callers(identity, (host, int(port)), deadline_s)
    return (call(identity, (host, int(port)), deadline_s),)


def _flat(arrays: Sequence[NDArray[Any]]) -> F32:
    return np.concatenate([np.asarray(array, np.float32).ravel() for array in arrays])


def _sum(total: F32, by_chip: F32) -> F32:
    for values in by_chip:
        total = total + values
    return total


def _cut(flat: F32, shapes: Sequence[tuple[int, ...]]) -> Iterator[F32]:
    start = 0
    for shape in shapes:
        size = int(np.prod(shape))
        yield flat[start : start + size].reshape(shape)
        start += size
