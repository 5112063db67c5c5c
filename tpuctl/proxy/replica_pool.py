"""The replicas of a service, how many requests each has, and the requests that wait for one.

A count changes in two places: `ReplicaPool._admit` adds one, and `Admission.__exit__` takes it
away. Nothing is awaited between the choice of a replica and the count, so that no end of a request,
cancellation included, comes in between.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from tpuctl.models.inference.service_record import ReplicaAddress
from tpuctl.proxy.error_answers import ProxyError, no_replica, queue_full, queue_timeout
from tpuctl.proxy.proxy_limits import ProxyLimits
from tpuctl.proxy.replica_health import AnswerResult, ProbeResult, ReplicaHealth


@dataclass(frozen=True, slots=True)
class ReplicaTarget:
    """A replica as its service's record has it: where it listens, and whether it gets requests."""

    number: int
    address: ReplicaAddress
    ready_path: str = "/health"
    is_routed: bool = True
    """False: it drains, or is not ready yet."""


@dataclass(slots=True, eq=False)
class PooledReplica:
    """A replica, with the requests that it has from this proxy now."""

    target: ReplicaTarget
    health: ReplicaHealth
    in_flight: int = 0
    is_listed: bool = True
    """False once the record has it no more, or at another address."""
    stay: int = 0
    """Goes up each time it comes back: a failure counts for the stay in which it happened."""


@dataclass(slots=True)
class Admission:
    """A request's place at a replica, for a `with` block, at whose end the count is given back."""

    pool: "ReplicaPool"
    replica: PooledReplica
    _is_open: bool = True

    def __enter__(self) -> PooledReplica:
        return self.replica

    def __exit__(self, *_error: object) -> None:
        if self._is_open:
            self._is_open = False
            self.pool.give_back(self.replica)


Failed = Mapping[PooledReplica, int]
"""What a request has tried, and the stay in which each failed."""


@dataclass(slots=True)
class ReplicaPool:
    """Chooses a replica for each request: the one with the fewest in flight, ties at random."""

    limits: ProxyLimits
    monotonic: Callable[[], float]
    random: Random
    say: Callable[[str], None]
    replicas: list[PooledReplica] = field(default_factory=list)
    requests_total: int = 0
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    @property
    def queued(self) -> int:
        """How many requests wait for a replica."""
        return len(self._waiting)

    @property
    def in_flight(self) -> dict[int, int]:
        """The number of each replica that has requests -> how many it has."""
        counts: dict[int, int] = {}
        for each in self.replicas:
            number = each.target.number
            if each.is_listed or each.in_flight:
                counts[number] = counts.get(number, 0) + each.in_flight
        return counts

    @property
    def routed(self) -> tuple[int, ...]:
        """The numbers of the replicas that a new request may go to now."""
        return tuple(sorted(each.target.number for each in self._routable()))

    def update(self, targets: Iterable[ReplicaTarget]) -> None:
        """Take the replicas that the record has now; requests of the others go on."""
        known = {(each.target.number, each.target.address): each for each in self._listed()}
        for target in targets:
            if (each := known.pop((target.number, target.address), None)) is None:
                self.replicas.append(PooledReplica(target, ReplicaHealth(self.limits)))
            elif each.target != target:
                self._note_change(each, target)
                each.target = target
        for gone in known.values():
            gone.is_listed = False
        self._forget_ended()
        self._wake()

    def probe(self, replica: PooledReplica, result: ProbeResult, detail: str) -> None:
        """Take into account what a probe of a replica found."""
        was_ready = replica.health.is_ready
        replica.health.probe(result, detail)
        if replica.health.is_ready and not was_ready:
            replica.stay += 1
            self.say(f"replica {replica.target.number} is ready")
            self._wake()
        elif was_ready and not replica.health.is_ready:
            self.say(f"replica {replica.target.number} gets no requests: {detail}")

    def answer(self, replica: PooledReplica, result: AnswerResult, why: str = "") -> None:
        """Take into account how a request at a replica ended."""
        if result is AnswerResult.GOOD:
            replica.health.answer(result, 0.0)
            return
        number, health = replica.target.number, replica.health
        was_ready = health.is_ready
        if health.answer(result, self.monotonic(), why):
            removed_s = health.removed_until_s - self.monotonic()
            self.say(f"replica {number} gets no requests for {removed_s:.0f} s: it fails too often")
        elif was_ready and not health.is_ready:
            self.say(f"replica {number} gets no requests: {why}")

    def has_other(self, failed: Failed) -> bool:
        """Whether a request that has tried these replicas could go to another one now."""
        return any(failed.get(each) != each.stay for each in self._routable())

    async def admit(self, failed: Failed) -> Admission:
        """A place at a replica that has not failed; waits in the queue while there is none.

        Raises ProxyError when the queue is full, the wait too long, or only replicas are left that
        the request has tried.
        """
        if not self._waiting and (admission := self._admit(failed)):
            return admission
        if self._has_only(failed):
            raise no_replica("no other replica is left to try")
        if len(self._waiting) >= self.limits.queue_size:
            raise queue_full(len(self._waiting))
        deadline_s = self.monotonic() + self.limits.queue_s
        turn = self._queue_up(first=False)
        while True:
            await self._wait_for(turn, deadline_s)
            admission = self._admit(failed)
            if admission is not None or self._has_only(failed):
                self._wake()  # the next one may find a place too
                if admission is None:
                    raise no_replica("no other replica is left to try")
                return admission
            turn = self._queue_up(first=True)

    def give_back(self, replica: PooledReplica) -> None:
        """Take a request off the count of its replica; only an Admission calls this."""
        replica.in_flight -= 1
        if not replica.is_listed and not replica.in_flight:
            self._forget_ended()
        if self._waiting:
            self._wake()

    def _admit(self, failed: Failed) -> Admission | None:
        replica = self._choose(failed)
        if replica is None:
            return None
        replica.in_flight += 1
        self.requests_total += 1
        return Admission(self, replica)

    def _choose(self, failed: Failed) -> PooledReplica | None:
        most = self.limits.in_flight
        best: list[PooledReplica] = []
        fewest = most if most is not None else 1 << 60
        for each in self._routable():
            if failed and failed.get(each) == each.stay:
                continue
            if each.in_flight < fewest:
                best, fewest = [each], each.in_flight
            elif each.in_flight == fewest and best:
                best.append(each)
        if len(best) < 2:
            return best[0] if best else None
        return best[self.random.randrange(len(best))]

    def _routable(self) -> list[PooledReplica]:
        """Those that may get requests; the removed ones only while there is no other."""
        ready = [
            each
            for each in self.replicas
            if each.health.is_ready and each.target.is_routed and each.is_listed
        ]
        if all(not each.health.removals for each in ready):
            return ready
        now_s = self.monotonic()
        return [each for each in ready if each.health.removed_until_s <= now_s] or ready

    def _has_only(self, failed: Failed) -> bool:
        """Whether there are replicas, and the request has tried each of them."""
        routable = self._routable() if failed else []
        return bool(routable) and all(failed.get(each) == each.stay for each in routable)

    def _queue_up(self, *, first: bool) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if first else self._waiting.append)(turn)
        return turn

    async def _wait_for(self, turn: asyncio.Future[None], deadline_s: float) -> None:
        """Wait for a turn; one that comes too late or that nobody waits for goes to the next."""
        try:
            async with asyncio.timeout(max(0.0, deadline_s - self.monotonic())):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._wake()
            with suppress(ValueError):
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                raise self._timeout_error() from None
            raise

    def _timeout_error(self) -> ProxyError:
        if self._routable():
            return queue_timeout(self.limits.queue_s)
        return no_replica(f"no replica was ready for {self.limits.queue_s:g} s")

    def _wake(self) -> None:
        """Give the first request that waits a turn, if a replica may take it."""
        while self._waiting and self._choose({}) is not None:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _listed(self) -> Iterator[PooledReplica]:
        return (each for each in self.replicas if each.is_listed)

    def _forget_ended(self) -> None:
        self.replicas = [each for each in self.replicas if each.is_listed or each.in_flight]

    def _note_change(self, replica: PooledReplica, target: ReplicaTarget) -> None:
        if replica.target.is_routed and not target.is_routed:
            count = replica.in_flight
            self.say(f"replica {target.number} gets no new requests; {count} are in flight")
        elif target.is_routed and not replica.target.is_routed:
            replica.health.is_ready = False  # it was not probed meanwhile
