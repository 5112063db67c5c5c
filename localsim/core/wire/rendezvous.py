"""How the workers of one attempt find each other: each listens, and calls those before it.

Two connections for each pair: one for data, one for the pulse. Whoever calls says which attempt and
which worker it is; a process of another attempt is refused. A stranger's call is no reason to stop
waiting for our own.
"""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from localsim.core.wire import links
from localsim.core.wire.links import LinkError, MeshError

DATA, PULSE = PURPOSES = ("data", "pulse")
_PAUSE_S = 0.05
_HELLO_S = 2.0

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """A worker's place in a run."""

    attempt: str
    accelerator_type: str
    worker_count: int
    worker_id: int


def connect_peers(
    identity: RunIdentity, addresses: Sequence[Address], deadline_s: float
) -> Mapping[str, dict[int, socket.socket]]:
    """The connections to every other worker, by what they are for; MeshError names the missing."""
    meeting = _Meeting(identity, deadline_s)
    try:
        with contextlib.closing(_listen(identity, addresses, deadline_s)) as server:
            for worker_id in range(identity.worker_id):
                _begin(meeting.call, worker_id, addresses[worker_id])
            meeting.receive(server)
    finally:
        met = meeting.end()
    return {
        purpose: {peer: met[peer, other] for peer, other in sorted(met) if other == purpose}
        for purpose in PURPOSES
    }


class _Meeting:
    """The connections to the workers met so far; each call that comes or goes has a thread."""

    def __init__(self, identity: RunIdentity, deadline_s: float) -> None:
        self._identity = identity
        self._deadline_s = deadline_s
        others = set(range(identity.worker_count)) - {identity.worker_id}
        self._missing = {(peer, purpose) for peer in others for purpose in PURPOSES}
        self._found: dict[tuple[int, str], socket.socket] = {}
        self._refusals: dict[int, str] = {}
        self._lock = threading.RLock()
        self._is_over = False
        self._waker, self._woken = socket.socketpair()

    def receive(self, server: socket.socket) -> None:
        """Greet callers until everybody is there; raises MeshError at the deadline."""
        with selectors.DefaultSelector() as selector:
            selector.register(server, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while self._missing:
                events = selector.select(max(0.0, self._deadline_s - time.monotonic()))
                if time.monotonic() >= self._deadline_s:
                    raise MeshError(self._who_is_missing())
                for key, _ in events:
                    if key.fileobj is server:
                        _begin(self._greet, server.accept()[0])
                    else:
                        self._woken.recv(1)

    def call(self, worker_id: int, address: Address) -> None:
        """Call a worker until it welcomes both calls, or the meeting is over."""
        for purpose in PURPOSES:
            while not self._is_over and (worker_id, purpose) in self._missing:
                try:
                    self._call(worker_id, purpose, address)
                except (LinkError, OSError):
                    time.sleep(_PAUSE_S)

    def end(self) -> dict[tuple[int, str], socket.socket]:
        """End the meeting and return its connections, closed unless everybody was found."""
        with self._lock:
            self._is_over = True
            self._waker.close()
            self._woken.close()
            if self._missing:
                for connection in self._found.values():
                    connection.close()
            return self._found

    def _call(self, worker_id: int, purpose: str, address: Address) -> None:
        deadline_s = min(self._deadline_s, time.monotonic() + _HELLO_S)
        connection = links.dial(address, deadline_s)
        with self._keeping(connection):
            links.send_words(connection, {**asdict(self._identity), "purpose": purpose}, deadline_s)
            answer = links.receive_words(connection, deadline_s)
            if answer != {"welcome": worker_id}:
                self._refusals[worker_id] = str(answer.get("refused"))
                raise LinkError("refused")
            self._keep((worker_id, purpose), connection)

    def _greet(self, connection: socket.socket) -> None:
        deadline_s = min(self._deadline_s, time.monotonic() + _HELLO_S)
        with contextlib.suppress(LinkError, OSError), self._keeping(connection):
            links.disable_nagle(connection)
            hello = links.receive_words(connection, deadline_s)
            # In one step, lest a second caller of that number is welcomed, too. First the answer:
            # once it is kept, the connection is another thread's.
            with self._lock:
                refusal = self._refusal(hello)
                if refusal is not None:
                    links.send_words(connection, {"refused": refusal}, deadline_s)
                    return
                links.send_words(connection, {"welcome": self._identity.worker_id}, deadline_s)
                self._keep((hello["worker_id"], hello["purpose"]), connection)

    def _refusal(self, hello: Mapping[str, Any]) -> str | None:
        here, worker_id, purpose = self._identity, hello.get("worker_id"), hello.get("purpose")
        for name in ("attempt", "accelerator_type", "worker_count"):
            if hello.get(name) != getattr(here, name):
                return f"its {name} is {getattr(here, name)}"
        if type(worker_id) is not int or not here.worker_id < worker_id < here.worker_count:
            return f"it awaits no call of a worker {worker_id}"
        if purpose not in PURPOSES:
            return f"it knows no calls for {purpose}"
        before = self._found.get((worker_id, purpose))
        if before is not None and not _is_dead(before):
            return f"it has a worker {worker_id} already"
        return None

    def _keep(self, key: tuple[int, str], connection: socket.socket) -> None:
        with self._lock:
            if self._is_over:
                raise LinkError("the meeting is over")
            if key in self._found:
                self._found[key].close()
            self._found[key] = connection
            self._missing.discard(key)
            self._waker.send(b"!")

    @contextlib.contextmanager
    def _keeping(self, connection: socket.socket) -> Iterator[None]:
        """Close the connection in the end unless the meeting has kept it."""
        try:
            yield
        finally:
            with self._lock:
                is_kept = connection in self._found.values()
            if not is_kept:
                connection.close()

    def _who_is_missing(self) -> str:
        peers = sorted({peer for peer, _ in self._missing})
        names = ", ".join(f"worker {peer}" for peer in peers)
        reasons = [self._refusals[peer] for peer in peers if peer in self._refusals]
        verb = "is" if len(peers) == 1 else "are"
        return f"{names} {verb} missing" + "".join(f": {reason}" for reason in reasons[:1])


def _listen(
    identity: RunIdentity, addresses: Sequence[Address], deadline_s: float
) -> socket.socket:
    """Listen where the others call; a dying process of an older attempt may still be there."""
    host, port = addresses[identity.worker_id]
    while True:
        try:
            return links.listen((host, port))
        except OSError as error:
            if time.monotonic() >= deadline_s:
                who = f"worker {identity.worker_id}"
                raise MeshError(f"{who} cannot listen at {host}:{port}: {error}") from error
        time.sleep(_PAUSE_S)


def _begin(work: Callable[..., None], *arguments: Any) -> None:
    """Run a function in a thread beside this one; it ends by a deadline of its own."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


def _is_dead(connection: socket.socket) -> bool:
    """Whether the other end has closed it."""
    try:
        connection.settimeout(0)
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
