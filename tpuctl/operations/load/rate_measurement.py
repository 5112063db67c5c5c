"""What is measured of a server at one rate of requests."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tpuctl.operations.load.duration_histogram import DurationHistogram

LATE_S = 0.01
"""Requests may be sent so late before anybody needs to know."""
LATE_SHARE = 0.1
"""The same as a part of the latency: below it the latency is mostly the server's."""


def poisson_arrivals(rate: float, duration_s: float, random: Random) -> Iterator[float]:
    """The times of arrivals that know nothing of each other, `rate` a second on average."""
    time_s = random.expovariate(rate)
    while time_s < duration_s:
        yield time_s
        time_s += random.expovariate(rate)


@dataclass
class RateMeasurement:
    """The answers to requests that arrived at `rate` a second for `duration_s`.

    A latency counts from the moment at which a request was due, whether or not it could be sent
    then: a server that stalls delays every request that arrives meanwhile, and all of them count.
    """

    rate: float
    duration_s: float
    arrivals: int = 0
    """Requests that were due; each of them is counted below, as one of four things."""
    succeeded: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Failures by status or kind: connect, tls, disconnected, truncated, deadline, ..."""
    dropped: int = 0
    """Requests that were not sent, because as many as allowed were in flight."""
    unfinished: int = 0
    """Requests in flight when the measurement was interrupted."""
    elapsed_s: float = 0.0
    """The time until the last answer, at least `duration_s` unless it was interrupted."""
    received_bytes: int = 0
    """The bytes of the bodies of answers that succeeded."""
    events: int = 0
    """The events of streams that succeeded, without those that say that a stream is done."""
    latency: DurationHistogram = field(default_factory=DurationHistogram)
    """From when a request was due to the end of its answer, of those that succeeded."""
    service_time: DurationHistogram = field(default_factory=DurationHistogram)
    """The same from when it was sent."""
    lag: DurationHistogram = field(default_factory=DurationHistogram)
    """From when a request was due to when it was sent, of all that were sent."""
    first_event: DurationHistogram = field(default_factory=DurationHistogram)
    """From when a request was due to the first event of its stream."""
    event_gap: DurationHistogram = field(default_factory=DurationHistogram)
    """Between an event of a stream and the next one."""

    @property
    def failed(self) -> int:
        """Requests that were sent and failed."""
        return self.errors.total()

    @property
    def throughput(self) -> float:
        """Requests that succeeded in a second."""
        return self.succeeded / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def events_per_s(self) -> float:
        """Events of streams in a second."""
        return self.events / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def is_late(self) -> bool:
        """Whether requests were sent so late that the figures are those of the sender.

        That is where one in a hundred was sent later than LATE_S and than a tenth of the latency.
        """
        lag_s, latency_s = self.lag.percentile_s(99), self.latency.percentile_s(99)
        return (lag_s or 0.0) > max(LATE_S, LATE_SHARE * (latency_s or 0.0))
