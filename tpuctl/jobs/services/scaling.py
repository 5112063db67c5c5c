"""How many replicas a service wants: by its requests in flight, up at once and down later."""

import math
from dataclasses import replace

from tpuctl.jobs.services.service_events import with_service_event
from tpuctl.jobs.services.service_observation import ServiceObservation
from tpuctl.models.inference.serve_spec import ReplicaRange
from tpuctl.models.inference.service_record import ServiceRecord


def requests_in_flight(seen: ServiceObservation) -> int:
    """The requests that replicas have or that wait for one, by all proxies that live."""
    reports = [each.report for each in seen.proxies]
    return sum(
        sum(map(_positive, each.in_flight.values())) + _positive(each.queued) for each in reports
    )


def scale(record: ServiceRecord, seen: ServiceObservation) -> ServiceRecord:
    """The record with the number of replicas that is wanted now."""
    serve = record.revision.spec.serve
    limits = serve.replicas if serve else ReplicaRange()
    requests = requests_in_flight(seen)
    needed = min(limits.max, max(limits.min, math.ceil(requests / limits.in_flight)))
    wanted = min(limits.max, max(limits.min, record.wanted_replicas))
    record = replace(record, wanted_replicas=wanted)
    if needed > wanted:
        text = f"replicas wanted: {needed}, for {requests} in flight"
        scaled = replace(record, wanted_replicas=needed, fewer_since_s=None, fewer_replicas=0)
        return with_service_event(scaled, text, seen.now_s)
    if needed == wanted:
        return replace(record, fewer_since_s=None, fewer_replicas=0)
    return _scale_down(record, needed, limits, seen.now_s)


def _scale_down(
    record: ServiceRecord, needed: int, limits: ReplicaRange, now_s: float
) -> ServiceRecord:
    """Fewer replicas do: they are wanted once that was so for `idle_s`.

    The time before a revision is READY for the first time does not count: it must be seen to work.
    """
    if record.revision.ready_s is None:
        return replace(record, fewer_since_s=None, fewer_replicas=0)
    since_s = record.fewer_since_s
    if since_s is None or since_s > now_s:
        return replace(record, fewer_since_s=now_s, fewer_replicas=needed)
    most = max(record.fewer_replicas, needed)
    if now_s - since_s < limits.idle_s:
        return replace(record, fewer_replicas=most)
    scaled = replace(record, wanted_replicas=most, fewer_since_s=None, fewer_replicas=0)
    text = f"replicas wanted: {most}, as more were not needed for {limits.idle_s:.0f} s"
    return with_service_event(scaled, text, now_s)


def _positive(count: int) -> int:
    return max(0, count)
