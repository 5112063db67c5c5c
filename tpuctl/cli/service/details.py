"""What is shown of a service: the columns of a list, and everything that `describe` knows."""

from collections.abc import Callable, Sequence
from typing import Any

from tpuctl.cli.shell.detail_view import DetailBlock, DetailView
from tpuctl.cli.shell.output import Output
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import (
    Columns,
    PointInTime,
    Usd,
    attributes,
    moment_of,
    moments,
    usd_of,
    values_of,
)
from tpuctl.models.inference.service_record import Replica, Revision
from tpuctl.operations.services.queries import ServiceView

EVENTS_SHOWN = 10


def usd_per_hour(view: ServiceView) -> Usd | None:
    """What the slices of a service cost now in USD per hour; None where that is not known."""
    return usd_of(view.usd_per_hour)


COLUMNS: Columns[ServiceView] = {
    "name": lambda view: view.record.name,
    "state": lambda view: view.record.state,
    "ready": lambda view: view.record.ready_replicas,
    "wanted": lambda view: view.record.wanted_replicas,
    "revision": lambda view: view.record.revision.number,
    "accelerator_type": lambda view: " or ".join(view.record.revision.spec.resources.types),
    "zones": lambda view: view.zones,
    "created": lambda view: PointInTime(view.record.created_s),
    "usd_per_hour": usd_per_hour,
    "why": lambda view: view.record.why,
    "owner": lambda view: view.record.owner,
}
"""Keys and order are public."""


def _ready(view: ServiceView) -> str:
    return f"{view.record.ready_replicas}/{view.record.wanted_replicas}"


def _zones(view: ServiceView) -> str:
    return ", ".join(view.zones)


def _listing() -> Listing[ServiceView]:
    table: dict[str, str | Callable[[ServiceView], Any]] = {
        "name": "name",
        "state": "state",
        "ready": _ready,
        "rev": "revision",
        "type": "accelerator_type",
        "zones": _zones,
        "usd/h": "usd_per_hour",
        "age": "created",
        "why": "why",
    }
    return Listing(COLUMNS, table, least=("type", "zones", "why", "age"))


def show_services(output: Output, views: Sequence[ServiceView], *, title: str = "") -> None:
    """Print a list of services: every column for programs, for people those that fit."""
    output.items(views, _listing(), title=title)


def known_name(view: ServiceView) -> tuple[str, str, int]:
    """What completion offers: the name, the state, and no workers."""
    return view.record.name, str(view.record.state), 0


def service_document(view: ServiceView) -> dict[str, Any]:
    """Everything known about a service as JSON. Keys are public."""
    record = view.record
    spec = record.revision.spec
    serve = spec.serve
    return {
        **values_of(view, COLUMNS),
        "command": spec.run,
        "port": serve.port if serve else None,
        "ready_path": serve.ready if serve else None,
        "checkpoint": serve.checkpoint if serve else None,
        "replicas": [_replica_document(view, each) for each in record.replicas],
        "revisions": [_revision_document(each) for each in record.revisions],
        "proxies": [
            {
                "id": each.proxy_id,
                "in_flight": dict(each.in_flight),
                "queued": each.queued,
                "routed": list(each.routed),
                "requests_total": each.requests_total,
                "updated": moment_of(each.updated_s),
            }
            for each in view.proxies
        ],
        "supervisor": view.supervisor
        and values_of(view.supervisor, {**attributes("host", "pid", "owner"), **moments("since")}),
        "events": [{"time": PointInTime(each.time_s), "text": each.text} for each in record.events],
    }


def _replica_document(view: ServiceView, replica: Replica) -> dict[str, Any]:
    address = replica.address
    return {
        "number": replica.number,
        "state": replica.state,
        "revision": replica.revision,
        "job": replica.job_id,
        "on_demand": replica.on_demand,
        "zone": address.zone if address else None,
        "node": address.node if address else None,
        "ip_address": address.ip_address if address else None,
        "port": address.port if address else None,
        "usd_per_hour": usd_of(view.usd_of(replica)),
        "created": moment_of(replica.created_s),
        "ready": moment_of(replica.ready_s),
        "why": replica.why,
    }


def _revision_document(revision: Revision) -> dict[str, Any]:
    serve = revision.spec.serve
    return {
        "number": revision.number,
        "created": moment_of(revision.created_s),
        "ready": moment_of(revision.ready_s),
        "checkpoint": serve.checkpoint if serve else None,
        "usd_per_hour": usd_of(revision.usd_per_hour),
        "same_engine_as": revision.same_engine_as,
        "failure": revision.failure,
    }


def service_view(view: ServiceView) -> DetailView:
    """A service for people."""
    record = view.record
    serve = record.revision.spec.serve
    limits = serve.replicas if serve else None
    usd = view.usd_per_hour
    fields = [
        ("why", record.why),
        ("replicas", f"{record.ready_replicas} of {record.wanted_replicas} READY"),
        ("limits", f"{limits.min} to {limits.max}, {limits.on_demand} on-demand" if limits else ""),
        ("revision", str(record.revision.number)),
        ("type", " or ".join(record.revision.spec.resources.types)),
        ("listens", f"port {serve.port}, ready at {serve.ready}" if serve else ""),
        ("checkpoint", (serve.checkpoint if serve else None) or "none"),
        ("price", "no list price" if usd is None else f"{Usd(usd)} USD/h now"),
        ("owner", record.owner),
        ("supervisor", view.supervisor.host if view.supervisor else "none"),
    ]
    blocks = [
        DetailBlock("replicas", [_replica_row(view, each) for each in record.replicas]),
        DetailBlock("revisions", [_revision_row(each) for each in record.revisions]),
        DetailBlock("proxies", [
            (each.proxy_id, f"{sum(each.in_flight.values())} in flight, {each.queued} queued")
            for each in view.proxies
        ]),
        DetailBlock("events", [
            (str(PointInTime(each.time_s)), each.text) for each in record.events[-EVENTS_SHOWN:]
        ]),
    ]  # fmt: skip
    return DetailView(f"service {record.name}", record.state, fields, blocks)


def _replica_row(view: ServiceView, replica: Replica) -> tuple[str, ...]:
    address, job = replica.address, view.jobs.get(replica.job_id)
    place = f"{address.zone} {address.ip_address}:{address.port}" if address else ""
    kind = "on-demand" if replica.on_demand else ""
    return (
        str(replica.number),
        str(replica.state),
        f"rev {replica.revision}",
        replica.job_id,
        kind,
        place,
        replica.why or (job.why if job is not None and address is None else ""),
    )


def _revision_row(revision: Revision) -> tuple[str, ...]:
    serve = revision.spec.serve
    checkpoint = (serve.checkpoint if serve else None) or ""
    usd = revision.usd_per_hour
    price = "no list price" if usd is None else f"{Usd(usd)} USD/h each"
    state = f"given up: {revision.failure}" if revision.failure else ""
    if revision.same_engine_as:
        state = f"the engine of revision {revision.same_engine_as}"
    return str(revision.number), str(PointInTime(revision.created_s)), price, checkpoint, state
