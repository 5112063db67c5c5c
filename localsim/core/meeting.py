"""How the workers of one attempt find each other: worker 0 listens, the others call it.

Whoever calls says which attempt and which worker it is; a process of another attempt is refused.
"""

import contextlib
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

from localsim.core.links import HELLO, REFUSED, WELCOME, Link, LinkError, give_up

_PAUSE_S = 0.05
_HELLO_S = 2.0


class MeshError(RuntimeError):
    """A worker of the slice is lost, missing, or not of this run; the message names it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A worker's place in a run."""

    attempt: str
    worker_count: int
    worker_id: int


def receive_callers(identity: Identity, address: tuple[str, int], deadline_s: float) -> list[Link]:
    """Worker 0: the links to workers 1, 2, ... once all have called."""
    links: dict[int, Link] = {}
    try:
        with contextlib.closing(_listen(address, deadline_s)) as server:
            while len(links) < identity.worker_count - 1:
                _receive(server, identity, links, deadline_s)
    except MeshError as error:
        give_up(links.values(), str(error))
        raise
    return [links[worker_id] for worker_id in range(1, identity.worker_count)]


def call(identity: Identity, address: tuple[str, int], deadline_s: float) -> Link:
    """Any other worker: the link to worker 0, tried until it is there and welcomes us."""
    reason = "it does not answer"
    while time.monotonic() < deadline_s:
        try:
            return _call_once(identity, address, deadline_s)
        except (LinkError, OSError) as error:
            reason = str(error)
        time.sleep(_PAUSE_S)
    raise MeshError(f"worker 0 is missing: {reason}")


def _listen(address: tuple[str, int], deadline_s: float) -> socket.socket:
    """Listen where worker 0 is awaited; a dying process of an older attempt may still be there."""
    while True:
        try:
            return socket.create_server(address)
        except OSError as error:
            if time.monotonic() >= deadline_s:
                raise MeshError(f"worker 0 cannot listen on port {address[1]}: {error}") from error
        time.sleep(_PAUSE_S)


def _receive(
    server: socket.socket, identity: Identity, links: dict[int, Link], deadline_s: float
) -> None:
    server.settimeout(max(0.001, deadline_s - time.monotonic()))
    try:
        connection, _ = server.accept()
    except TimeoutError as error:
        missing = sorted(set(range(1, identity.worker_count)) - links.keys())
        names = ", ".join(f"worker {worker_id}" for worker_id in missing)
        raise MeshError(f"{names} is missing") from error
    link = Link(connection)
    with _closed_on_error(link):
        worker_id = _welcome(link, identity, links, min(deadline_s, time.monotonic() + _HELLO_S))
        links[worker_id] = link


def _welcome(link: Link, identity: Identity, links: dict[int, Link], deadline_s: float) -> int:
    kind, words = link.receive_words(deadline_s)
    worker_id = words.get("worker_id")
    refusal = None
    if words.get("attempt") != identity.attempt:
        refusal = f"it runs attempt {identity.attempt}"
    elif words.get("worker_count") != identity.worker_count:
        refusal = f"it counts {identity.worker_count} workers"
    elif not isinstance(worker_id, int) or not 0 < worker_id < identity.worker_count:
        refusal = f"it knows no worker {worker_id}"
    elif worker_id in links:
        refusal = f"it has a worker {worker_id} already"
    if kind != HELLO or refusal is not None or not isinstance(worker_id, int):
        link.send_words(REFUSED, {"reason": refusal}, deadline_s)
        raise LinkError(refusal or "no hello")
    link.send_words(WELCOME, {}, deadline_s)
    return worker_id


def _call_once(identity: Identity, address: tuple[str, int], deadline_s: float) -> Link:
    link = Link(socket.create_connection(address, max(0.001, deadline_s - time.monotonic())))
    try:
        hello = {
            "attempt": identity.attempt,
            "worker_count": identity.worker_count,
            "worker_id": identity.worker_id,
        }
        link.send_words(HELLO, hello, deadline_s)
        kind, words = link.receive_words(deadline_s)
        if kind != WELCOME:
            raise LinkError(str(words.get("reason")))
    except LinkError:
        link.close()
        raise
    return link


@contextlib.contextmanager
def _closed_on_error(link: Link) -> Iterator[None]:
    """A stranger's call is no reason to stop waiting for our own."""
    try:
        yield
    except LinkError:
        link.close()
