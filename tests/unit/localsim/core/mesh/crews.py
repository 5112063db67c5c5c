"""The workers of a mesh as threads of one process, linked by socket pairs."""

import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

from localsim.core.mesh import Mesh
from localsim.core.wire.exchange import Exchange
from localsim.core.wire.peer_monitor import PeerMonitor


def linked(worker_count, buffer_bytes=None):
    """For each worker its connections to the others: worker -> peer -> socket."""
    links = [{} for _ in range(worker_count)]
    for one, other in combinations(range(worker_count), 2):
        pair = links[one][other], links[other][one] = socket.socketpair()
        for end in pair if buffer_bytes else ():
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    return links


def exchanges(worker_count, *, silence_s=8.0, buffer_bytes=None):
    """An Exchange for each worker."""
    data, pulses = linked(worker_count, buffer_bytes), linked(worker_count)
    return [
        Exchange(
            worker_id,
            data[worker_id],
            PeerMonitor(worker_id, pulses[worker_id], silence_s=silence_s),
        )
        for worker_id in range(worker_count)
    ]


class Crew:
    """All workers of a slice; what they do together runs in a thread for each."""

    def __init__(self, worker_count, **options):
        self.exchanges = exchanges(worker_count, **options)
        self._threads = ThreadPoolExecutor(worker_count)

    def meshes(self, accelerator_type):
        """The chips of a type, dealt to the workers."""
        return [Mesh(accelerator_type, each) for each in self.exchanges]

    def each(self, work, *by_worker):
        """What `work` gives on every worker; or what it raised there, as a value."""
        waiting = [self._threads.submit(work, *own) for own in zip(*by_worker, strict=True)]
        return [each.exception() or each.result() for each in waiting]

    def close(self):
        """End all connections."""
        self.each(Exchange.close, self.exchanges)
        self._threads.shutdown()
