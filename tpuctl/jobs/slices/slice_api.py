"""What the Cloud TPU API says about a job's slices, and what a job asks of it."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tpuctl import catalog
from tpuctl.api.tpu.explain import ABORTED, error_for, refusal_cause
from tpuctl.api.tpu.hints import QR, CallSubject
from tpuctl.api.tpu.network_errors import NETWORK_ERRORS
from tpuctl.errors import (
    CapacityError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    TpuctlError,
    UsageError,
)
from tpuctl.jobs.interfaces import Backends, SliceApi
from tpuctl.jobs.policy.actions import zone_of
from tpuctl.jobs.policy.observation import ABSENT, WITHDRAWN, JobObservation, SliceRefusal
from tpuctl.jobs.record import decoding
from tpuctl.jobs.slices import switch_setup
from tpuctl.jobs.workers import protocol
from tpuctl.models.job import Attempt, AttemptState, JobRecord, WorkerReport
from tpuctl.models.node import FAILED_HEALTH, JOB_LABEL, LOST_STATES, Node, NodeSpec, NodeState
from tpuctl.models.operation import Status
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec, QueuedResourceState
from tpuctl.store import Store

USER = "USER"
GONE_STATES = (ABSENT, NodeState.DELETING)
WORST_FIRST = (*sorted(LOST_STATES), *GONE_STATES)
"""Of several nodes the state of one that is like this is told, then of any that is not READY."""
PERMANENT_ERRORS = (UsageError, PermissionDeniedError, PreconditionError, NotFoundError)
"""Errors that no later try cures."""
REFUSAL_ERRORS = (*PERMANENT_ERRORS, CapacityError)
"""Errors that asking again at once does not cure."""
ZONE_TIMEOUT_S = 3.0
"""For the answers of one zone of several: what the others say counts meanwhile."""
RPC_CANCELLED = 1
"""The code of a request whose node was deleted by somebody while it was made."""


@dataclass(frozen=True, slots=True)
class SliceObservation(JobObservation):
    """One look at the Cloud TPU API: what a job knows of its slices alone, and the nodes."""

    nodes: tuple[Node, ...] = ()
    """All of the attempt's nodes, in the order of their workers, or none."""
    attempt: int = 0
    """The attempt whose nodes these are."""
    led_by: str = ""
    """The name of its slice, or of the request that led when the look began."""

    def is_of(self, attempt: Attempt | None) -> bool:
        """Whether these are the nodes of the attempt's slice, not of one it had or did not get."""
        return attempt is not None and (self.attempt, self.led_by) == (attempt.number, attempt.node)


@dataclass(slots=True)
class _SliceObserver:
    """What one look finds, and what stood in its way."""

    tpu: SliceApi
    requests: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, SliceRefusal] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def at_requests(self, names: Mapping[str, str]) -> None:
        for name, zone in names.items():
            self.at_request(zone, name)

    def at_request(self, zone: str, name: str) -> None:
        self.requests.pop(name, None)
        try:
            found = self.tpu.get_queued_resource(zone, name)
        except NotFoundError:
            self.requests[name] = ABSENT
        except TpuctlError as error:
            self.troubles.append(str(error))
        else:
            self.requests[name] = _state(found)
            if found.state == QueuedResourceState.FAILED:
                self.refusals[name] = _refusal_of(found)

    def at_node(self, zone: str, name: str) -> Node | str | None:
        """The node, ABSENT, or None when it could not be asked."""
        try:
            return self.tpu.get_node(zone, name)
        except NotFoundError:
            return ABSENT
        except TpuctlError as error:
            self.troubles.append(str(error))
            return None


def _ask_zones(tpu: SliceApi, names: Mapping[str, str]) -> _SliceObserver:
    """What is known of requests; of several zones each is asked by a thread of its own."""
    found, zones = _SliceObserver(tpu), sorted(set(names.values()))
    if len(zones) < 2:
        found.at_requests(names)
        return found
    looks = {zone: _SliceObserver(tpu) for zone in zones}
    threads = {zone: _start_look(looks[zone], names, zone) for zone in zones}
    last_s = time.monotonic() + ZONE_TIMEOUT_S
    for zone, thread in threads.items():
        thread.join(max(0.0, last_s - time.monotonic()))
        if thread.is_alive():  # what it still finds is for nobody
            found.troubles.append(f"{zone} has not answered for {ZONE_TIMEOUT_S:.0f} s")
            continue
        found.requests |= looks[zone].requests
        found.refusals |= looks[zone].refusals
        found.troubles += looks[zone].troubles
    return found


def _start_look(look: _SliceObserver, names: Mapping[str, str], zone: str) -> threading.Thread:
    here = {name: other for name, other in names.items() if other == zone}
    thread = threading.Thread(target=look.at_requests, args=(here,), daemon=True)
    thread.start()
    return thread


def observe_slices(tpu: SliceApi, record: JobRecord, now: Callable[[], float]) -> SliceObservation:
    """Ask for every slice that the record still cares about."""
    looked_s, attempt = now(), record.attempt
    names = {name: zone_of(record, name) for name in record.unwanted}
    is_open = attempt and not record.is_ended and attempt.state != AttemptState.ENDED
    if attempt and attempt.queued_resource and is_open:
        names[attempt.queued_resource] = attempt.zone
        names |= {other.name: other.zone for other in attempt.others if other.is_open}
    eyes = _ask_zones(tpu, names)
    state: str | None = None
    nodes: tuple[Node, ...] = ()
    if attempt and is_open and _may_have_node(attempt, eyes.requests):
        found = [eyes.at_node(attempt.zone, name) for name in attempt.nodes]
        state, nodes = _worst_state(found), tuple(node for node in found if isinstance(node, Node))
        if attempt.queued_resource and state in GONE_STATES:
            # Asked before the node, it may not have told yet why the node is gone.
            eyes.at_request(attempt.zone, attempt.queued_resource)
    nodes = nodes if attempt and len(nodes) == attempt.slices else ()
    return SliceObservation(
        looked_s,
        nodes=nodes,
        attempt=attempt.number if attempt else 0,
        led_by=attempt.node if attempt else "",
        requests=eyes.requests,
        looked_s=looked_s,
        node=state,
        node_checked_s=looked_s if state else 0.0,
        node_ids=tuple(node.node_id for node in nodes),
        worker_count=sum(node.worker_count for node in nodes),
        created_s=min((node.created_s for node in nodes), default=None),
        failed_workers=frozenset(_failed_workers(nodes)),
        queued_resource=nodes[0].queued_resource if nodes else None,
        refusals=tuple(eyes.refusals.values()),
        trouble=eyes.troubles[0] if eyes.troubles else None,
    )


def _failed_workers(nodes: Sequence[Node]) -> Iterator[int]:
    """The workers of unhealthy nodes that a symptom names, counted over all nodes.

    Symptoms stay when what they tell of has passed; the health of the node does not.
    """
    first = 0
    for node in nodes:
        if node.health in FAILED_HEALTH:
            named = {symptom.worker_id for symptom in node.symptoms}
            yield from (
                first + number for number in range(node.worker_count) if str(number) in named
            )
        first += node.worker_count


def request_slice(backends: Backends, record: JobRecord, attempt: Attempt) -> SliceRefusal | None:
    """File the attempt's queued resource; returns why it is not granted, if so.

    Raises TransientError and its kin when asking again may help: the name and the request id are
    the same then, so that there is one request at most.
    """
    name = attempt.queued_resource or attempt.node
    try:
        spec = _spec(backends, record, attempt)
        backends.tpu.create_queued_resource(spec, request_id=attempt.request_id or "")
    except ConflictError as error:
        return _refusal_unless_ours(backends.tpu, record, attempt, error)
    except (*REFUSAL_ERRORS, catalog.UnknownError) as error:
        kind = error.reason if isinstance(error, TpuctlError) else UsageError.reason
        is_shortage, cause = _is_shortage(error), refusal_cause(error)
        return SliceRefusal(_text_of(error), kind, name, is_shortage=is_shortage, cause=cause)
    return None


def delete_slice(tpu: SliceApi, zone: str, name: str) -> None:
    """Delete a queued resource and its nodes; gone is as good. Raises TransientError and its kin.

    The name holds the job's own random part: what somebody else made is not called so.
    """
    try:
        tpu.delete_queued_resource(zone, name, force=True)
    except (NotFoundError, PreconditionError):
        return  # gone, or between two states: it is looked at again


def add_ssh_key(backends: Backends, node: Node) -> None:
    """Put our key into the node's metadata when it is not there."""
    present = node.metadata.get("ssh-keys", "").splitlines()
    if backends.key_line in present or node.state != NodeState.READY:
        return
    lines = "\n".join([*(line for line in present if line.strip()), backends.key_line])
    metadata = {**node.metadata, "ssh-keys": lines}
    backends.tpu.update_node(node.zone, node.name, {"metadata": metadata})


def final_reports(store: Store, record: JobRecord, attempt: Attempt) -> tuple[WorkerReport, ...]:
    """What the workers that ended left in the bucket; raises TransientError and its kin."""
    found = []
    for worker_id in range(attempt.worker_count):
        try:
            data = store.get_range(protocol.status_key(record.job_id, attempt.number, worker_id))
            told = protocol.apply_status(WorkerReport(worker_id), decoding.parse_document(data))
            fields = json.loads(json.dumps(asdict(told)))
            found.append(decoding.decode_dataclass(WorkerReport, fields))
        except (NotFoundError, ValueError, TypeError):
            continue  # it has not ended well enough to say so
    return tuple(found)


def _spec(backends: Backends, record: JobRecord, attempt: Attempt) -> QueuedResourceSpec:
    wanted = record.spec.resources
    kind = attempt.accelerator_type or record.accelerator_type
    runtime_version = wanted.runtime_version or catalog.default_runtime_version(kind)
    node = NodeSpec(
        name=attempt.node,
        zone=attempt.zone,
        accelerator_type=kind,
        runtime_version=runtime_version,
        provisioning=wanted.provisioning,
        **{
            **wanted.options.node_fields,
            "labels": {**wanted.options.labels, JOB_LABEL: record.job_id},
            "metadata": switch_setup.slice_metadata(backends, record, attempt),
        },
    )
    return QueuedResourceSpec(
        attempt.queued_resource or attempt.node,
        node,
        node_count=attempt.slices if attempt.slices > 1 else None,
        max_run_duration_s=wanted.options.max_run_duration_s,
    )


def _refusal_of(request: QueuedResource) -> SliceRefusal:
    """The reason in tpuctl's words; no chips, no quota and a slice lost at birth may pass."""
    name, kind = request.name, request.accelerator_type
    if not request.failure:
        return SliceRefusal("the queued resource FAILED", CapacityError.reason, name)
    if request.failure_code == RPC_CANCELLED:
        return SliceRefusal("somebody deleted its slice", PreconditionError.reason, name)
    subject = f"queued resource {name!r} FAILED"
    about = CallSubject(
        subject, QR, name, request.zone, accelerator_type=kind, slices=request.node_count
    )
    error = error_for(Status(request.failure_code, request.failure), about)
    if isinstance(error, NETWORK_ERRORS):
        return SliceRefusal(_text_of(error), error.reason, name, cause=refusal_cause(error))
    lasts = isinstance(error, PERMANENT_ERRORS) and request.failure_code != ABORTED
    reason = error.reason if lasts else CapacityError.reason
    cause = refusal_cause(error)
    return SliceRefusal(str(error), reason, name, is_shortage=not lasts, cause=cause)


def _is_shortage(error: Exception) -> bool:
    """Whether it is for want of chips: a shortage of addresses is another cause."""
    return isinstance(error, CapacityError) and not isinstance(error, NETWORK_ERRORS)


def _text_of(error: Exception) -> str:
    """What the error says; with what to do where another try as it is would be in vain."""
    if isinstance(error, TpuctlError) and isinstance(error, NETWORK_ERRORS):
        return f"{error}; {error.hint}"
    return str(error)


def _refusal_unless_ours(
    tpu: SliceApi, record: JobRecord, attempt: Attempt, error: ConflictError
) -> SliceRefusal | None:
    """An earlier try of ours whose reply was lost is as good as a new one; nothing else is."""
    name = attempt.queued_resource or attempt.node
    try:
        if tpu.get_queued_resource(attempt.zone, name).labels.get(JOB_LABEL) == record.job_id:
            return None
    except NotFoundError:
        pass  # then it is the name of the node that is taken
    return SliceRefusal(f"{error}, and it is not this job's", ConflictError.reason, name)


def _state(request: QueuedResource) -> str:
    suspended = (QueuedResourceState.SUSPENDING, QueuedResourceState.SUSPENDED)
    return WITHDRAWN if request.state in suspended and request.initiator == USER else request.state


def _worst_state(found: list[Node | str | None]) -> str | None:
    """One lost slice is the loss of all; what could not be asked may be lost."""
    states = [node.state if isinstance(node, Node) else node for node in found]
    for bad in WORST_FIRST:
        if bad in states:
            return bad
    if None in states:
        return None
    return next((state for state in states if state != NodeState.READY), NodeState.READY)


def _may_have_node(attempt: Attempt, requests: Mapping[str, str]) -> bool:
    """A request that is not ACTIVE yet has no node, or one that is still being made."""
    request = requests.get(attempt.queued_resource or "")
    return attempt.state != AttemptState.WAITING or request == QueuedResourceState.ACTIVE
