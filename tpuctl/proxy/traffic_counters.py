"""What a proxy counts of its requests, for Prometheus."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tpuctl.proxy.replica_pool import ReplicaPool

CLIENT_GONE = 499
"""The status that stands for a client which went away before its answer was complete."""
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class ProxyValue(NamedTuple):
    """One value of a metric, with its labels."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(slots=True)
class PrometheusHistogram:
    """How many durations were at most each bound."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def add(self, duration_s: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self.total_s += duration_s

    def values(self, name: str) -> Iterator[ProxyValue]:
        """The values of a histogram as Prometheus wants it: counts up to each bound."""
        below = 0
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self.counts, strict=True):
            below += count
            yield ProxyValue(f"{name}_bucket", {"le": bound}, below)
        yield ProxyValue(f"{name}_sum", {}, self.total_s)
        yield ProxyValue(f"{name}_count", {}, below)


@dataclass(slots=True)
class TrafficCounters:
    """Counts since the proxy began."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    """The replica, "" for none, and the status -> requests."""
    retries: Counter[str] = field(default_factory=Counter)
    """The replica that failed -> requests that were given to another one after it."""
    first_byte: PrometheusHistogram = field(default_factory=PrometheusHistogram)
    whole: PrometheusHistogram = field(default_factory=PrometheusHistogram)

    def values(self, pool: ReplicaPool) -> Iterator[ProxyValue]:
        """Every metric of the proxy."""
        yield ProxyValue("tpuctl_proxy_up", {}, 1)
        yield ProxyValue("tpuctl_proxy_queued", {}, pool.queued)
        for (replica, status), count in sorted(self.requests.items()):
            labels = {"replica": replica, "code": str(status)}
            yield ProxyValue("tpuctl_proxy_requests_total", labels, count)
        for replica, count in sorted(self.retries.items()):
            yield ProxyValue("tpuctl_proxy_retries_total", {"replica": replica}, count)
        routed = pool.routed
        for each in pool.replicas:
            if each.is_listed:
                labels, number = {"replica": str(each.target.number)}, each.target.number
                yield ProxyValue("tpuctl_proxy_in_flight", labels, pool.in_flight[number])
                yield ProxyValue("tpuctl_proxy_routed", labels, float(number in routed))
                removals = each.health.removals_total
                yield ProxyValue("tpuctl_proxy_removals_total", labels, removals)
        yield from self.first_byte.values("tpuctl_proxy_first_byte_seconds")
        yield from self.whole.values("tpuctl_proxy_request_seconds")
