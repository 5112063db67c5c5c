"""The Cloud TPU API, in tpuctl's own words: Google's messages over one lean channel."""

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

import grpc
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2

from tpuctl.api.tpu import decode, encode
from tpuctl.api.tpu.grpc_client import NEXT_TOKEN, PAGE_SIZE, GrpcClient
from tpuctl.api.tpu.hints import NODE, QR, CallSubject
from tpuctl.api.tpu.rest import RestApi
from tpuctl.api.tpu.retry import POLICIES
from tpuctl.api.tpu.rpc_errors import translate_errors
from tpuctl.api.tpu.versions import (
    V2,
    V2ALPHA1,
    Version,
    node_needs_rest,
    request_needs_rest,
    version_for,
)
from tpuctl.errors import IntegrityError, UsageError
from tpuctl.models.capacity.capacity_event import Reservation
from tpuctl.models.node import ListedNode, Node, NodeSpec, Provisioning
from tpuctl.models.operation import Operation
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec
from tpuctl.network_policy import TPU_CHANGE_ONCE
from tpuctl.page_tokens import read_pages

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu_rest import TpuRest

ALL_ZONES = "-"
WORDS = {NODE: "node", QR: "queued resource"}
MOST_HEARD = 256
COLLECTIONS = {NODE: "nodes", QR: "queuedResources"}
_ID = re.compile(r"[A-Za-z0-9_.~+%-]{1,1000}")
_ID_HINT = "names are letters, digits and _ - . ~ + %"


@dataclass(frozen=True, slots=True)
class TpuApi:
    """Nodes and queued resources of one project, in any zone."""

    channel: grpc.Channel
    project: str
    sleep: Callable[[float], None] = time.sleep
    random: Random = field(default_factory=Random)
    rest: Callable[[], RestApi] | None = None
    """How to say what only JSON can."""
    now: Callable[[], float] = time.time
    heard: deque[Operation] = field(default_factory=lambda: deque(maxlen=MOST_HEARD))
    """The operations that the API has answered with, the newest last: they have its own times."""

    def list_nodes(self, zone: str = ALL_ZONES) -> tuple[list[ListedNode], list[str]]:
        """Nodes of a zone, or of all, and the zones that could not be asked."""
        with translate_errors(self._about("list nodes", NODE, zone=zone)):
            return self._grpc_client.pages(
                "ListNodes", self._parent(zone), lambda page: decode.listed_nodes(page.nodes)
            )

    def read_nodes(self, zone: str = ALL_ZONES) -> tuple[list[Node], list[str]]:
        """The nodes of a zone, or of all, with all fields; and the zones that did not answer."""
        with translate_errors(self._about("list nodes", NODE, zone=zone)):
            return self._grpc_client.pages(
                "ListNodes", self._parent(zone), lambda page: map(decode.node, page.nodes)
            )

    def get_node(self, zone: str, name: str) -> Node:
        """One node; raises NotFoundError."""
        return decode.node(self._call("GetNode", zone, name))

    def describe_node(self, zone: str, name: str) -> Node:
        """One node with what only v2alpha1 has: announced maintenance, autocheckpoint."""
        return decode.node(self._call("GetNode", zone, name, V2ALPHA1))

    def create_node(self, spec: NodeSpec, *, request_id: str) -> Operation:
        """Ask for a node; the operation ends when it is READY, or with the reason why not.

        The `request_id`, which v2 has no field for, lets v2alpha1's call be repeated.
        """
        parent = self._parent(spec.zone)
        request = {"parent": parent, "node_id": spec.name, "node": encode.node_fields(spec)}
        identified = {**request, "request_id": request_id}
        with translate_errors(self.about_creation(NODE, spec.name, spec), changes=True):
            if node_needs_rest(spec):
                with self._json() as rest:
                    return rest.create_node(V2ALPHA1.message("CreateNodeRequest", identified), spec)
            version = version_for(spec)
            fields = identified if version is V2ALPHA1 else request
            client = self._grpc_client
            return self._noticed(client.change("CreateNode", fields, {"parent": parent}, version))

    def delete_node(self, zone: str, name: str) -> Operation:
        """Delete a node in whatever state it is; raises NotFoundError."""
        return self._change("DeleteNode", zone, name)

    def stop_node(self, zone: str, name: str) -> Operation:
        """Stop a node of one worker; its disk stays."""
        return self._change("StopNode", zone, name)

    def start_node(self, zone: str, name: str) -> Operation:
        """Start a stopped node."""
        return self._change("StartNode", zone, name)

    def update_node(self, zone: str, name: str, changes: Mapping[str, Any]) -> Operation:
        """Replace whole fields (description, labels, metadata, tags) of a READY node."""
        mask = {"paths": sorted(changes)}
        with self._named("UpdateNode", zone, name) as path:
            request = {"node": {"name": path, **changes}, "update_mask": mask}
            return self._grpc_client.change("UpdateNode", request, {"node.name": path})

    def host_keys(self, zone: str, name: str) -> list[str]:
        """The public SSH host key of every worker, in order, as the control plane knows it."""
        reply = self._call("GetGuestAttributes", zone, name, query_path="")
        return [decode.host_key(attributes) for attributes in reply.guest_attributes]

    def guest_attributes(self, zone: str, name: str, query_path: str) -> list[Mapping[str, str]]:
        """What every worker, in order, has told under that path: `namespace/key` to value."""
        reply = self._call("GetGuestAttributes", zone, name, query_path=query_path)
        return decode.guest_attributes(reply)

    def list_queued_resources(
        self, zone: str = ALL_ZONES
    ) -> tuple[list[QueuedResource], list[str]]:
        """Requests of a zone, or of all, and the zones that could not be asked."""
        with translate_errors(self._about("list queued resources", QR, zone=zone)):
            return self._grpc_client.pages(
                "ListQueuedResources",
                self._parent(zone),
                lambda page: map(decode.queued_resource, page.queued_resources),
                V2ALPHA1,  # v2 does not tell best effort from on demand
            )

    def get_queued_resource(self, zone: str, name: str) -> QueuedResource:
        """One request; raises NotFoundError."""
        return decode.queued_resource(self._call("GetQueuedResource", zone, name))

    def describe_queued_resource(self, zone: str, name: str) -> QueuedResource:
        """One request with what v2 does not tell: best effort, and, told by JSON, flex-start.

        UNKNOWN where JSON cannot be had: a request can be looked at and deleted all the same.
        """
        request = decode.queued_resource(self._call("GetQueuedResource", zone, name, V2ALPHA1))
        if request.provisioning != Provisioning.ON_DEMAND:
            return request
        with suppress(UsageError, grpc.RpcError), self._json() as rest:
            return rest.get_queued_resource(f"{self._parent(zone)}/queuedResources/{name}")
        return replace(request, provisioning=Provisioning.UNKNOWN)

    def requested_node(self, zone: str, name: str) -> Node:
        """The node that a request asks for, the first of several; raises NotFoundError."""
        return decode.requested_node(self._call("GetQueuedResource", zone, name, V2ALPHA1))

    def flex_starts(self, zone: str = ALL_ZONES) -> frozenset[tuple[str, str]] | None:
        """Zone and name of the requests that are flex-start; None where JSON cannot be asked."""
        if self.rest is None:
            return None
        with (
            translate_errors(self._about("list queued resources", QR, zone=zone)),
            self._json() as rest,
        ):
            return rest.flex_starts(self._parent(zone))

    def create_queued_resource(self, spec: QueuedResourceSpec, *, request_id: str) -> Operation:
        """File a request; the operation ends when it is filed, long before it is ACTIVE."""
        parent, version = self._parent(spec.node.zone), version_for(spec.node)
        request = {
            "parent": parent,
            "queued_resource_id": spec.name,
            "queued_resource": encode.request_fields(spec, parent, version, self.now()),
            "request_id": request_id,
        }
        about = self.about_creation(QR, spec.name, spec.node, spec.node_count or 1)
        with translate_errors(about, changes=True):
            if not request_needs_rest(spec):
                return self._grpc_client.change(
                    "CreateQueuedResource", request, {"parent": parent}, version
                )
            message = version.message("CreateQueuedResourceRequest", request)
            with self._json() as rest:
                return rest.create_queued_resource(message, spec)

    def delete_queued_resource(self, zone: str, name: str, *, force: bool) -> Operation:
        """Delete a request; `force` deletes its nodes first. Raises NotFoundError."""
        return self._change("DeleteQueuedResource", zone, name, force=force)

    def reset_queued_resource(self, zone: str, name: str) -> Operation:
        """Ask for the nodes of a request to be made again."""
        return self._change("ResetQueuedResource", zone, name)

    def get_operation(self, name: str) -> Operation:
        """The present state of a long-running operation."""
        request = operations_pb2.GetOperationRequest(name=name)
        with translate_errors("operation"):
            reply = self._grpc_client.send(
                "google.longrunning.Operations/GetOperation",
                request,
                operations_pb2.Operation,
                {"name": name},
            )
        return self._noticed(decode.operation(reply))

    def list_operations(self, zone: str = ALL_ZONES) -> list[Operation]:
        """The operations of a zone, or of all, that the API still lists, with what they changed."""
        name = self._parent(zone)

        def fetch(token: str) -> Any:
            return self._grpc_client.send(
                "google.longrunning.Operations/ListOperations",
                operations_pb2.ListOperationsRequest(
                    name=name, page_size=PAGE_SIZE, page_token=token
                ),
                operations_pb2.ListOperationsResponse,
                {"name": name},
            )

        with translate_errors(self._about("list operations", NODE, zone=zone)):
            pages = read_pages(fetch, NEXT_TOKEN, IntegrityError, f"ListOperations of {name}")
            return [decode.operation(each) for page in pages for each in page.operations]

    def list_zones(self) -> list[str]:
        """The zones this project may ask for."""
        name = f"projects/{self.project}"

        def fetch(token: str) -> Any:
            return self._grpc_client.send(
                "google.cloud.location.Locations/ListLocations",
                locations_pb2.ListLocationsRequest(name=name, page_token=token),
                locations_pb2.ListLocationsResponse,
                {"name": name},
            )

        with translate_errors(self._about(f"project {self.project!r}", NODE)):
            pages = read_pages(fetch, NEXT_TOKEN, IntegrityError, f"ListLocations of {name}")
            return sorted(location.location_id for page in pages for location in page.locations)

    def accelerator_types(self, zone: str) -> frozenset[str]:
        """The names of the accelerator types that the API has in a zone, which may be in use."""
        with translate_errors(self._about(f"accelerator types of {zone}", NODE, zone=zone)):
            names, _ = self._grpc_client.pages(
                "ListAcceleratorTypes",
                self._parent(zone),
                lambda page: (decode.zone_and_id(each.name)[1] for each in page.accelerator_types),
            )
        return frozenset(names)

    def list_reservations(self, zone: str) -> list[Reservation]:
        """The reservations of the project in a zone, which v2alpha1 alone lists."""
        with translate_errors(self._about(f"reservations in {zone}", NODE, zone=zone)):
            found, _ = self._grpc_client.pages(
                "ListReservations",
                self._parent(zone),
                lambda page: map(decode.reservation, page.reservations),
                V2ALPHA1,
            )
        return found

    def close(self) -> None:
        """Close the connections."""
        self.channel.close()

    def about_creation(self, noun: str, name: str, node: NodeSpec, slices: int = 1) -> CallSubject:
        """What a refusal of that creation names, at once or later from its operation."""
        return CallSubject(
            f"create {WORDS[noun]} {name!r}",
            noun,
            name,
            node.zone,
            self.project,
            node.accelerator_type,
            "" if node.provisioning == Provisioning.ON_DEMAND else f" --{node.provisioning}",
            hint=f"run: tpuctl {noun} describe {name} --zone {node.zone}",
            unknown_hint="run the same command again: it goes on with what was made; or run: "
            f"tpuctl {noun} describe {name} --zone {node.zone}",
            usage=f"run: tpuctl {noun} create --help",
            slices=slices,
            network=node.network or "",
            subnetwork=node.subnetwork or "",
        )

    @property
    def _grpc_client(self) -> GrpcClient:
        return GrpcClient(self.channel, self.sleep, self.random)

    @contextmanager
    def _json(self) -> Iterator["TpuRest"]:
        from tpuctl.api.tpu.tpu_rest import TpuRest  # few calls need it, and requests takes 60 ms

        if self.rest is None:
            raise UsageError(
                "the context has no REST endpoint, which this needs",
                hint="give the context the --tpu-rest-endpoint that belongs to its --tpu-endpoint",
            )
        api = self.rest()
        try:
            yield TpuRest(api, self.sleep, self.random)
        finally:
            api.close()

    def _about(self, subject: str, noun: str, **extra: Any) -> CallSubject:
        return CallSubject(subject, noun, project=self.project, **extra)

    @contextmanager
    def _named(self, method: str, zone: str, name: str) -> Iterator[str]:
        """The path of the node or request that a method is about, whose refusals are explained."""
        if not _ID.fullmatch(name):
            raise UsageError(f"{name[:100]!r} is not a valid name", hint=_ID_HINT)
        noun = QR if "QueuedResource" in method else NODE
        subject, hint = f"{WORDS[noun]} {name!r} in {zone}", f"run: tpuctl {noun} list"
        about = self._about(subject, noun, name=name, zone=zone, hint=hint)
        with translate_errors(about, changes=POLICIES[method] is TPU_CHANGE_ONCE):
            yield f"{self._parent(zone)}/{COLLECTIONS[noun]}/{name}"

    def _call(self, method: str, zone: str, name: str, version: Version = V2, **fields: str) -> Any:
        with self._named(method, zone, name) as path:
            request = {"name": path, **fields}
            return self._grpc_client.call(method, request, {"name": path}, version)

    def _change(self, method: str, zone: str, name: str, **fields: bool) -> Operation:
        with self._named(method, zone, name) as path:
            client = self._grpc_client
            return self._noticed(client.change(method, {"name": path, **fields}, {"name": path}))

    def _noticed(self, operation: Operation) -> Operation:
        self.heard.append(operation)
        return operation

    def _parent(self, zone: str) -> str:
        return f"projects/{self.project}/locations/{zone}"
