"""Data between workers: what goes out and what comes in move at the same time.

One primitive, so nobody can wait for a reader who is waiting for a writer. A message says to which
collective it belongs: a worker that is at another one is an error on both sides.
"""

import os
import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from numpy.typing import NDArray

from localsim.core.wire.links import MeshError
from localsim.core.wire.peer_monitor import PeerMonitor, Progress, mismatch
from localsim.core.wire.transfer import Transfer, shorten_words

Messages = Mapping[int, Sequence[NDArray[Any]]]
"""Peer -> C-contiguous arrays, sent and received one after the other."""

_TICK_S = 0.25
"""So often whoever waits asks who is lost."""


class Exchange:
    """What one worker sends to the others and receives from them, collective by collective."""

    def __init__(
        self, worker_id: int, links: Mapping[int, socket.socket], pulse: PeerMonitor
    ) -> None:
        """Takes links and pulse over; both lead to all other workers, if there are any."""
        for link in links.values():
            link.settimeout(0)
        self.worker_id = worker_id
        self.worker_count = len(links) + 1
        self._links = links
        self._pulse = pulse
        self._progress = Progress()
        self._over: str | None = None
        self._process = os.getpid()

    def begin(self, words: str) -> None:
        """Begin a collective, named by words that all workers share; raises MeshError."""
        if os.getpid() != self._process:
            raise MeshError("the mesh is of the process that connected it, not of its children")
        if self._over is not None:
            raise MeshError(self._over)
        self._check()
        self._progress = Progress(self._progress.number + 1, 0, shorten_words(words))

    def run(self, outgoing: Messages, incoming: Messages) -> None:
        """One round: send `outgoing` and fill `incoming`, as the peers do. Raises MeshError.

        It takes as long as a living peer takes to come; broken off, the mesh is of no more use.
        """
        self._progress = self._progress._replace(round=self._progress.round + 1)
        peers = outgoing.keys() | incoming.keys()
        if not peers:
            return
        self._pulse.arrive(self._progress)
        self._over = "the mesh was left in the middle of a collective"
        self._move(
            {
                peer: Transfer(self._progress, outgoing.get(peer), incoming.get(peer))
                for peer in sorted(peers)
            }
        )
        self._over = None

    def close(self, reason: str = "its program has ended") -> None:
        """Say to the others that this worker leaves by itself, and end the connections; once."""
        if os.getpid() == self._process:  # a child of a fork has no part in it
            self._end({"bye": reason})
            self._over = self._over or "the mesh is closed"

    def _move(self, transfers: Mapping[int, Transfer]) -> None:
        with selectors.DefaultSelector() as selector:
            for peer, transfer in transfers.items():
                selector.register(self._links[peer], transfer.wanted(), peer)
            while selector.get_map():
                ready = selector.select(_TICK_S)
                for key, events in ready:
                    transfer = transfers[key.data]
                    self._step(key.data, transfer, events)
                    wanted = transfer.wanted()
                    if not wanted:
                        selector.unregister(key.fileobj)
                    elif wanted != key.events:
                        selector.modify(key.fileobj, wanted, key.data)
                self._check()
                if not ready:
                    self._check_flow(transfers)

    def _step(self, peer: int, transfer: Transfer, events: int) -> None:
        there = None
        try:
            if events & selectors.EVENT_WRITE:
                transfer.send(self._links[peer])
            if events & selectors.EVENT_READ:
                there = transfer.receive(self._links[peer])
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(self._pulse.break_reason(peer, error.strerror or str(error)))
        if there is not None:
            self._fail(mismatch((self.worker_id, self._progress), (peer, there)))

    def _check(self) -> None:
        if self._pulse.verdict is not None:
            self._fail(self._pulse.verdict)

    def _check_flow(self, transfers: Mapping[int, Transfer]) -> None:
        """End the mesh for a peer of this round that moves no data: it has all it needs."""
        for peer, transfer in transfers.items():
            still_s = time.monotonic() - transfer.moved_s
            together_s = self._pulse.has_reached_s(peer, self._progress)
            if transfer.wanted() and min(still_s, together_s) > self._pulse.silence_s:
                self._fail(f"worker {peer} is lost: its data does not arrive")

    def _fail(self, message: str) -> NoReturn:
        """End the mesh and raise MeshError.

        The others hear of it before the connections close, lest they take this worker for the lost.
        """
        self._over = message
        self._end({"over": message})
        raise MeshError(message)

    def _end(self, farewell: dict[str, str]) -> None:
        self._pulse.end(farewell)
        for link in self._links.values():
            link.close()
