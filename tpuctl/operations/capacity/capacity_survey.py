"""Asks all who know where a type can be had, side by side, and tells what is known so far."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tpuctl.api.connect import quota_limits_reader
from tpuctl.byte_size import names_text
from tpuctl.errors import DeadlineError, TpuctlError, TransientError
from tpuctl.jobs import client
from tpuctl.jobs.policy.capacity_events import capacity_events
from tpuctl.ledger import refusals
from tpuctl.models.capacity.capacity_event import CapacityEvent
from tpuctl.models.job import JobRecord
from tpuctl.models.queued_resource import QueuedResource
from tpuctl.operations.capacity.capacity_page import CapacityFacts, CapacityQuestion
from tpuctl.operations.capacity.side_by_side import ask_side_by_side
from tpuctl.operations.slices.flex_start import with_flex_start

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.config import Context
    from tpuctl.store import Store
    from tpuctl.store.gcs.bulk import BulkBucket

DEADLINE_S = 10.0
"""Who has not answered by then is not waited for."""

MOST_NAMED = 4
"""So many silent zones are named; the table shows all."""


class CapacityRuntime(Protocol):
    """What a survey may touch."""

    @property
    def context(self) -> "Context":
        """The context in use."""

    @property
    def tpu(self) -> "TpuApi":
        """The Cloud TPU API."""

    def store(self, url: str | None = None) -> "Store":
        """The store of the context's bucket."""

    def bulk(self, bucket: str) -> "BulkBucket":
        """A bucket by name."""


class CapacityTopic(StrEnum):
    """What a question is about."""

    REGIONS = "the region of the bucket"
    QUOTA = "what is left of the quota"
    NODES = "the list of nodes"
    REQUESTS = "the list of queued resources"
    TYPES = "the list of types"
    RESERVATIONS = "the list of reservations"
    EVENTS = "what others have seen"
    JOBS = "what jobs have seen"


Topic = tuple[str, str]
"""A CapacityTopic, and the zone that is asked, or "" for all zones."""
Answers = Mapping[Topic, Any]
SILENCE = (TransientError, DeadlineError)


def survey_capacity(
    runtime: CapacityRuntime, question: CapacityQuestion
) -> Iterator[CapacityFacts]:
    """Yield what is known, after each answer; the last time all have answered, or it is too late.

    An error is a trouble among the facts. Raises what the clients raise before they ask anybody,
    such as CredentialsError.
    """
    answers: dict[Topic, Any] = {}
    for topic, answer in ask_side_by_side(_asks(runtime, question), DEADLINE_S):
        answers[topic] = answer
        yield facts_of(answers)


def _asks(runtime: CapacityRuntime, question: CapacityQuestion) -> dict[Topic, Callable[[], Any]]:
    """Every question, by its topic."""
    tpu, store, bucket = runtime.tpu, runtime.store(), runtime.bulk(runtime.context.bucket)
    now_s = question.now_s
    asks: dict[Topic, Callable[[], Any]] = {
        (CapacityTopic.REGIONS, ""): lambda: bucket.facts().regions,
        (CapacityTopic.NODES, ""): tpu.list_nodes,
        (CapacityTopic.REQUESTS, ""): partial(_list_requests, tpu),
        (CapacityTopic.EVENTS, ""): partial(refusals.load_events, store, now_s, question.days),
        (CapacityTopic.JOBS, ""): lambda: _job_events(client.list_jobs(store)),
    }
    if read := quota_limits_reader(runtime.context):
        asks[CapacityTopic.QUOTA, ""] = read
    for zone in question.zones:
        asks[CapacityTopic.TYPES, zone] = partial(tpu.accelerator_types, zone)
        asks[CapacityTopic.RESERVATIONS, zone] = partial(tpu.list_reservations, zone)
    return asks


def _list_requests(tpu: "TpuApi") -> tuple[list[QueuedResource], list[str]]:
    requests, silent = tpu.list_queued_resources()
    return with_flex_start(tpu, requests), silent


def _job_events(jobs: list[JobRecord]) -> list[CapacityEvent]:
    return [event for job in jobs for event in capacity_events(job)]


def facts_of(answers: Answers) -> CapacityFacts:
    """What the answers tell; an error is told as a trouble."""
    known = {key: found for key, found in answers.items() if not isinstance(found, TpuctlError)}
    whole = {topic: found for (topic, zone), found in known.items() if not zone}
    nodes, requests = whole.get(CapacityTopic.NODES), whole.get(CapacityTopic.REQUESTS)
    return CapacityFacts(
        regions=whole.get(CapacityTopic.REGIONS, frozenset()),
        limits=whole.get(CapacityTopic.QUOTA),
        nodes=None if nodes is None else nodes[0],
        requests=None if requests is None else requests[0],
        silent=frozenset(silent_zones(answers)),
        types=_by_zone(known, CapacityTopic.TYPES),
        reservations=_by_zone(known, CapacityTopic.RESERVATIONS),
        shared_events=whole.get(CapacityTopic.EVENTS),
        job_events=whole.get(CapacityTopic.JOBS),
        troubles=tuple(troubles_of(answers)),
    )


def _by_zone(answers: Answers, wanted: CapacityTopic) -> dict[str, Any]:
    return {zone: found for (topic, zone), found in answers.items() if topic == wanted}


def silent_zones(answers: Answers) -> list[str]:
    """The zones that lists could not reach, or that did not answer for their types, sorted."""
    found: set[str] = set()
    for (topic, zone), answer in answers.items():
        if zone and isinstance(answer, SILENCE):
            found.add(zone)
        elif topic in (CapacityTopic.NODES, CapacityTopic.REQUESTS) and isinstance(answer, tuple):
            found.update(answer[1])
    return sorted(found)


def troubles_of(answers: Answers) -> Iterator[str]:
    """What could not be learnt, a line for each topic, and one for all silent zones."""
    if silent := silent_zones(answers):
        yield f"{names_text(silent, MOST_NAMED)} did not answer"
    seen: set[str] = set()
    for (topic, zone), answer in answers.items():
        is_silence = bool(zone) and isinstance(answer, SILENCE)
        if isinstance(answer, TpuctlError) and not is_silence and topic not in seen:
            seen.add(topic)
            yield f"{topic} is unknown: {answer}"
