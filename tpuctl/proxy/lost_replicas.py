"""Ends requests at machines that are gone without a word, where no connection breaks.

The system notices such a machine only where a connection leads straight to it. Behind a SOCKS5
proxy or a jump host nothing breaks, and an answer that never comes looks like one that takes long.
An engine that is busy, or that has closed its port and finishes its requests, is another thing: its
machine answers, if only by refusing a connection.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tpuctl.errors import NotFoundError, TpuctlError, TransientError
from tpuctl.models.inference.service_record import ReplicaAddress
from tpuctl.proxy.proxy_limits import ProxyLimits
from tpuctl.proxy.replica_connections import Dial, ReplicaSession, is_exhausted
from tpuctl.proxy.replica_pool import PooledReplica, ReplicaPool


@dataclass(slots=True)
class LostReplicas:
    """Looks for machines that are gone among the replicas that have requests, until cancelled."""

    pool: ReplicaPool
    session: ReplicaSession
    dial: Dial
    limits: ProxyLimits
    monotonic: Callable[[], float]
    say: Callable[[str], None]
    _gone_since_s: dict[PooledReplica, float] = field(default_factory=dict)

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(self.limits.probe_pause_s)
            await self.look()

    async def look(self) -> None:
        """Break the connections to each machine that has been gone for `lost_s`."""
        doubtful = [each for each in self.pool.replicas if each.in_flight and not is_fine(each)]
        gone = await asyncio.gather(*(self._is_gone(each) for each in doubtful))
        now_s = self.monotonic()
        self._gone_since_s = {
            each: self._gone_since_s.get(each, now_s)
            for each, is_gone in zip(doubtful, gone, strict=True)
            if is_gone
        }
        for each, since_s in list(self._gone_since_s.items()):
            if now_s - since_s >= self.limits.lost_s:
                self._break_off(each)

    async def _is_gone(self, replica: PooledReplica) -> bool:
        # Once the record has it no more, somebody else may have its address.
        return not replica.is_listed or not await answers(
            self.dial, replica.target.address, self.limits.connect_s
        )

    def _break_off(self, replica: PooledReplica) -> None:
        del self._gone_since_s[replica]
        why = f"its machine has been gone for {self.limits.lost_s:g} s"
        self.say(f"replica {replica.target.number}: {why}; {replica.in_flight} requests end")
        self.session.break_off(replica.target.address, why)


def is_fine(replica: PooledReplica) -> bool:
    """Whether probes say that a replica is there."""
    return replica.is_listed and replica.target.is_routed and replica.health.is_ready


async def answers(dial: Dial, address: ReplicaAddress, connect_s: float) -> bool:
    """Whether the machine of a replica takes a connection or refuses it.

    True also where only this side has a problem, such as no more sockets.
    """
    try:
        async with asyncio.timeout(connect_s):
            connected = await dial(address)
    except (OSError, TpuctlError) as error:  # a timeout is an OSError
        is_refused = isinstance(error.__cause__ or error, ConnectionRefusedError)
        is_loss = isinstance(error, OSError | TransientError | NotFoundError)
        return is_refused or is_exhausted(error) or not is_loss
    connected.close()
    return True
