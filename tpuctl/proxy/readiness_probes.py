"""Asks every replica for its ready path, once a second."""

import asyncio
from dataclasses import dataclass, field

import aiohttp

from tpuctl.proxy.proxy_limits import ProxyLimits
from tpuctl.proxy.replica_connections import ExhaustedError, ReplicaSession, UnreachableError
from tpuctl.proxy.replica_health import ProbeResult
from tpuctl.proxy.replica_pool import PooledReplica, ReplicaPool, ReplicaTarget
from tpuctl.proxy.request_body import one_line

MOST_READ_BYTES = 64 * 1024
HURRY_PAUSE_S = 0.05
"""However many requests are refused, replicas are probed no more often than that."""


async def probe(
    session: ReplicaSession, target: ReplicaTarget, timeout_s: float
) -> tuple[ProbeResult, str]:
    """Ask for a replica's ready path; the result, and what it was in words."""
    address = target.address
    headers = {"Host": f"{address.ip_address}:{address.port}"}
    try:
        async with (
            asyncio.timeout(timeout_s),
            session.request(
                "GET",
                session.origin(address) + target.ready_path,
                headers=headers,
                allow_redirects=False,
            ) as answer,
        ):
            status = answer.status
            await answer.content.read(MOST_READ_BYTES)  # an engine may complain when nobody reads
    except TimeoutError:
        return ProbeResult.TIMEOUT, f"{target.ready_path} did not answer within {timeout_s:g} s"
    except ExhaustedError as error:
        return ProbeResult.TIMEOUT, str(error)
    except (UnreachableError, aiohttp.ClientError, OSError, ValueError) as error:
        return ProbeResult.UNREACHABLE, one_line(error)
    if 200 <= status < 300:
        return ProbeResult.READY, ""
    return ProbeResult.NOT_READY, f"{target.ready_path} answers {status}"


@dataclass(slots=True)
class ReadinessProbes:
    """Probes the replicas of a pool until cancelled."""

    pool: ReplicaPool
    session: ReplicaSession
    limits: ProxyLimits
    _due: asyncio.Event = field(default_factory=asyncio.Event)
    _running: dict[PooledReplica, asyncio.Task[None]] = field(default_factory=dict)

    def hurry(self) -> None:
        """Probe now: there are new replicas, or one that seems to end."""
        self._due.set()

    async def run(self) -> None:
        """Probe each replica that may get requests, again and again."""
        try:
            while True:
                for each in self.pool.replicas:
                    if each.is_listed and each.target.is_routed and each not in self._running:
                        self._running[each] = asyncio.create_task(self._probe(each))
                self._due.clear()
                try:
                    async with asyncio.timeout(self.limits.probe_pause_s):
                        await self._due.wait()
                    await asyncio.sleep(HURRY_PAUSE_S)
                except TimeoutError:
                    pass
        finally:
            for task in self._running.values():
                task.cancel()

    async def _probe(self, replica: PooledReplica) -> None:
        try:
            result, detail = await probe(self.session, replica.target, self.limits.probe_s)
            self.pool.probe(replica, result, detail)
        finally:
            del self._running[replica]
