"""What the simulated cloud answers, as messages of one API version."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty
from google.protobuf.timestamp_pb2 import Timestamp

from localsim.cloud.collection import Page
from localsim.cloud.guest_attributes import GuestAttribute
from localsim.cloud.nodes import AcceleratorConfig, Network, Node, NodeSpec, NodeState
from localsim.cloud.offerings import Location, OfferedType, OfferedVersion
from localsim.cloud.operations import Operation
from localsim.cloud.queued_resources import QueuedResource, RequestState, Tier

ENDPOINT_PORT = 8470
NANOS = 1_000_000_000


class TpuViews:
    """Replies in the message classes of one API version; `types` is the module that has them."""

    def __init__(self, types: Any, api_version: str) -> None:
        self.types = types
        self._api_version = api_version
        self._listed: WeakKeyDictionary[Node, bytes] = WeakKeyDictionary()

    def node(self, node: Node) -> Any:
        """A Node."""
        message = self._node_spec(node.spec)
        message.name = node.name
        message.id = node.id
        message.state = self.types.Node.State[node.state]
        message.create_time.CopyFrom(_timestamp(node.create_time_s))
        message.queued_resource = node.queued_resource
        message.api_version = self.types.Node.ApiVersion[self._api_version]
        if node.state == NodeState.READY:
            message.health = self.types.Node.Health.HEALTHY
        for address in node.addresses:
            message.network_endpoints.add(ip_address=address, port=ENDPOINT_PORT)
        return message

    def nodes(self, page: Page[Node]) -> bytes:
        """A ListNodesResponse, encoded: a node that did not change is not encoded again."""
        # Encoded messages that are joined read as one message with all their repeated fields.
        tail = self._response("ListNodes", next_page_token=page.next_token)
        return b"".join([*map(self._listed_node, page.items), tail.SerializeToString()])

    def queued_resource(self, request: QueuedResource) -> Any:
        """A QueuedResource."""
        message = self.types.QueuedResource.pb()(
            name=request.name, reservation_name=request.spec.reservation_name
        )
        message.create_time.CopyFrom(_timestamp(request.create_time_s))
        for wanted in request.spec.nodes:
            message.tpu.node_spec.add(
                parent=wanted.parent, node_id=wanted.node_id, node=self._node_spec(wanted.spec)
            )
        if request.spec.tier != Tier.ON_DEMAND:
            getattr(message, request.spec.tier).SetInParent()
        if request.spec.min_duration_s is not None:
            message.guaranteed.min_duration.CopyFrom(_duration(request.spec.min_duration_s))
        self._set_state(message.state, request)
        return message

    def queued_resources(self, page: Page[QueuedResource]) -> Any:
        """A ListQueuedResourcesResponse."""
        return self._response(
            "ListQueuedResources",
            queued_resources=map(self.queued_resource, page.items),
            next_page_token=page.next_token,
        )

    def operation(self, operation: Operation) -> Any:
        """A google.longrunning.Operation, with metadata and result of this version."""
        message = operations_pb2.Operation(name=operation.name, done=operation.is_done)
        message.metadata.Pack(self._metadata(operation))
        if operation.failure is not None:
            message.error.code = operation.failure.code
            message.error.message = operation.failure.message
        elif operation.node is not None:
            message.response.Pack(self.node(operation.node))
        elif operation.queued_resource is not None:
            message.response.Pack(self.queued_resource(operation.queued_resource))
        elif operation.is_done:
            message.response.Pack(Empty())
        return message

    def operations(self, page: Page[Operation]) -> Any:
        """A ListOperationsResponse."""
        return operations_pb2.ListOperationsResponse(
            operations=map(self.operation, page.items), next_page_token=page.next_token
        )

    def accelerator_type(self, offered: OfferedType) -> Any:
        """An AcceleratorType."""
        config = self._accelerator_config(offered.config)
        return self.types.AcceleratorType.pb()(
            name=offered.name, type_=offered.type, accelerator_configs=[config]
        )

    def accelerator_types(self, page: Page[OfferedType]) -> Any:
        """A ListAcceleratorTypesResponse."""
        return self._response(
            "ListAcceleratorTypes",
            accelerator_types=map(self.accelerator_type, page.items),
            next_page_token=page.next_token,
        )

    def runtime_version(self, offered: OfferedVersion) -> Any:
        """A RuntimeVersion."""
        return self.types.RuntimeVersion.pb()(name=offered.name, version=offered.version)

    def runtime_versions(self, page: Page[OfferedVersion]) -> Any:
        """A ListRuntimeVersionsResponse."""
        return self._response(
            "ListRuntimeVersions",
            runtime_versions=map(self.runtime_version, page.items),
            next_page_token=page.next_token,
        )

    def guest_attributes(self, query_path: str, workers: Sequence[Sequence[GuestAttribute]]) -> Any:
        """A GetGuestAttributesResponse, one answer per worker."""
        message = self._response("GetGuestAttributes")
        for attributes in workers:
            answer = message.guest_attributes.add(query_path=query_path)
            for each in attributes:
                answer.query_value.items.add(
                    namespace=each.namespace, key=each.key, value=each.value
                )
        return message

    def _listed_node(self, node: Node) -> bytes:
        encoded = self._listed.get(node)
        if encoded is None:
            message = self._response("ListNodes", nodes=[self.node(node)])
            encoded = self._listed[node] = message.SerializeToString()
        return encoded

    def _response(self, method: str, **fields: Any) -> Any:
        return getattr(self.types, f"{method}Response").pb()(**fields)

    def _node_spec(self, spec: NodeSpec) -> Any:
        message = self.types.Node.pb()(
            description=spec.description,
            accelerator_type=spec.accelerator_type,
            runtime_version=spec.runtime_version,
            cidr_block=spec.cidr_block,
            labels=spec.labels,
            metadata=spec.metadata,
            tags=spec.tags,
            network_configs=[self._network(each) for each in spec.networks],
        )
        if spec.accelerator_config is not None:
            message.accelerator_config.CopyFrom(self._accelerator_config(spec.accelerator_config))
        if spec.network is not None:
            message.network_config.CopyFrom(self._network(spec.network))
        self._set_capacity(message, spec)
        self._set_identity(message, spec)
        return message

    def _set_capacity(self, message: Any, spec: NodeSpec) -> None:
        scheduling = message.scheduling_config
        scheduling.SetInParent()
        scheduling.preemptible = spec.scheduling.preemptible
        scheduling.reserved = spec.scheduling.reserved
        scheduling.spot = spec.scheduling.spot

    def _set_identity(self, message: Any, spec: NodeSpec) -> None:
        if spec.service_account is not None:
            message.service_account.email = spec.service_account.email
            message.service_account.scope.extend(spec.service_account.scopes)
        if spec.enable_secure_boot:
            message.shielded_instance_config.enable_secure_boot = True
        for disk in spec.data_disks:
            mode = self.types.AttachedDisk.DiskMode[disk.mode]
            message.data_disks.add(source_disk=disk.source, mode=mode)

    def _network(self, network: Network) -> Any:
        return self.types.NetworkConfig.pb()(
            network=network.network,
            subnetwork=network.subnetwork,
            enable_external_ips=network.enable_external_ips,
            can_ip_forward=network.can_ip_forward,
            queue_count=network.queue_count,
        )

    def _accelerator_config(self, config: AcceleratorConfig) -> Any:
        kind = self.types.AcceleratorConfig.Type[config.type]
        return self.types.AcceleratorConfig.pb()(type_=kind, topology=config.topology)

    def _set_state(self, message: Any, request: QueuedResource) -> None:
        state = self.types.QueuedResourceState
        message.state = state.State[request.state]
        message.state_initiator = state.StateInitiator[request.initiator]
        if request.state != RequestState.WAITING_FOR_RESOURCES:  # the one state without data
            getattr(message, f"{request.state.lower()}_data").SetInParent()
        if request.failure is not None:
            message.failed_data.error.code = request.failure.code
            message.failed_data.error.message = request.failure.message

    def _metadata(self, operation: Operation) -> Any:
        metadata = self.types.OperationMetadata.pb()(
            create_time=_timestamp(operation.create_time_s),
            target=operation.target,
            verb=operation.verb,
            cancel_requested=operation.cancel_requested,
            api_version=self._api_version.lower(),
        )
        if operation.end_time_s is not None:
            metadata.end_time.CopyFrom(_timestamp(operation.end_time_s))
        return metadata


def location(found: Location) -> Any:
    """A google.cloud.location.Location."""
    return locations_pb2.Location(name=found.name, location_id=found.zone)


def locations(page: Page[Location]) -> Any:
    """A ListLocationsResponse."""
    return locations_pb2.ListLocationsResponse(
        locations=map(location, page.items), next_page_token=page.next_token
    )


def _timestamp(moment_s: float) -> Timestamp:
    seconds, nanos = divmod(round(moment_s * 1_000_000) * 1000, NANOS)
    return Timestamp(seconds=seconds, nanos=nanos)


def _duration(length_s: float) -> Duration:
    seconds, nanos = divmod(round(length_s * NANOS), NANOS)
    return Duration(seconds=seconds, nanos=nanos)
