"""Clients that change nodes and requests of a served cloud until it dies, and remember the answers.

Every client has names of its own, so what must be true after the death follows from what it was
told: an acknowledged call has happened, an unanswered one has or has not, nothing happened twice.
"""

import random
import threading
import uuid
from dataclasses import dataclass, field

import grpc
from google.api_core.exceptions import GoogleAPICallError, ServiceUnavailable
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport
from google.longrunning import operations_pb2, operations_pb2_grpc
from google.protobuf.field_mask_pb2 import FieldMask

NODE = {"accelerator_type": "v5litepod-1", "runtime_version": "v2-alpha-tpuv5-lite"}
MOST_ALIVE = 6
"""Resources of each kind that one client keeps, so that the lists stay short."""


@dataclass
class Made:
    """One resource as its client knows it: what was acknowledged, and what got no answer."""

    name: str
    request_id: str = ""
    creation: str = ""
    """The operation that creates it, once acknowledged."""
    deletion: str = ""
    standing: bool = False
    """Whether it was seen after an earlier death; its creation is forgotten by now."""
    version: int = 0
    """The label that it was seen with last."""
    tried: int = 0
    """The label of the last update, acknowledged or not."""
    updates: dict[int, str] = field(default_factory=dict)
    """Label -> operation of the acknowledged updates."""
    unanswered: str = ""
    """`create`, `update` or `delete`, when the cloud died before it answered."""


@dataclass
class Client:
    """One client of the cloud, and what it was told."""

    number: int
    parent: str
    draws: random.Random
    nodes: list[Made] = field(default_factory=list)
    requests: list[Made] = field(default_factory=list)
    acknowledged: int = 0
    _made: int = 0

    def run(self, channel: grpc.Channel) -> None:
        """Change things until the cloud does not answer."""
        api = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))
        actions = (self.create_node, self.create_request, self.update_node)
        ends = (self.delete_node, self.delete_request)
        try:
            while True:
                self.draws.choice((*actions, *ends))(api)
        except ServiceUnavailable:
            return

    def create_node(self, api: tpu_v2.TpuClient) -> None:
        if len(alive(self.nodes)) < MOST_ALIVE:
            made = self._new("nodes")
            self.nodes.append(made)
            node_id = made.name.rpartition("/")[2]
            made.unanswered = "create"
            made.creation = self._told(
                made, api.create_node(parent=self.parent, node_id=node_id, node=tpu_v2.Node(NODE))
            )

    def create_request(self, api: tpu_v2.TpuClient) -> None:
        if len(alive(self.requests)) < MOST_ALIVE:
            made = self._new("queuedResources", str(uuid.UUID(int=self.draws.getrandbits(128))))
            self.requests.append(made)
            made.unanswered = "create"
            made.creation = self._told(made, create_request(api, made))

    def update_node(self, api: tpu_v2.TpuClient) -> None:
        if found := alive(self.nodes):
            made = self.draws.choice(found)
            made.tried += 1
            node = tpu_v2.Node(name=made.name, labels={"version": str(made.tried)})
            made.unanswered = "update"
            try:
                operation = api.update_node(node=node, update_mask=FieldMask(paths=["labels"]))
            except ServiceUnavailable:
                raise
            except GoogleAPICallError:  # not READY, or another update is under way: refused
                made.unanswered = ""
                return
            made.updates[made.tried] = self._told(made, operation)

    def delete_node(self, api: tpu_v2.TpuClient) -> None:
        self._delete(self.nodes, lambda made: api.delete_node(name=made.name))

    def delete_request(self, api: tpu_v2.TpuClient) -> None:
        self._delete(self.requests, lambda made: delete_request(api, made))

    def _delete(self, owned: list[Made], call) -> None:
        if found := alive(owned):
            made = self.draws.choice(found)
            made.unanswered = "delete"
            try:
                operation = call(made)
            except ServiceUnavailable:
                raise
            except GoogleAPICallError:  # PROVISIONING: refused
                made.unanswered = ""
                return
            made.deletion = self._told(made, operation)

    def _told(self, made: Made, operation) -> str:
        made.unanswered = ""
        self.acknowledged += 1
        return operation.operation.name

    def _new(self, collection: str, request_id: str = "") -> Made:
        self._made += 1
        return Made(f"{self.parent}/{collection}/c{self.number}-{self._made}", request_id)


def alive(owned: list[Made]) -> list[Made]:
    """Those that nobody has deleted."""
    return [made for made in owned if not made.deletion]


def create_request(api: tpu_v2.TpuClient, made: Made):
    """File the request, under its request id."""
    node_id = made.name.rpartition("/")[2] + "-node"
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(
        parent=made.name.partition("/queuedResources/")[0], node_id=node_id, node=tpu_v2.Node(NODE)
    )
    return api.create_queued_resource(
        request=tpu_v2.CreateQueuedResourceRequest(
            parent=spec.parent,
            queued_resource_id=made.name.rpartition("/")[2],
            queued_resource=tpu_v2.QueuedResource(tpu={"node_spec": [spec]}),
            request_id=made.request_id,
        )
    )


def delete_request(api: tpu_v2.TpuClient, made: Made):
    """Delete it with its nodes."""
    return api.delete_queued_resource(
        request=tpu_v2.DeleteQueuedResourceRequest(name=made.name, force=True)
    )


def run_until_death(clients: list[Client], address: str, kill) -> None:
    """All clients at once, each on a channel of its own; `kill` ends the cloud meanwhile."""
    channels = [grpc.insecure_channel(address) for _ in clients]
    threads = [
        threading.Thread(target=client.run, args=(channel,))
        for client, channel in zip(clients, channels, strict=True)
    ]
    for thread in threads:
        thread.start()
    kill()
    for thread in threads:
        thread.join(30)
    for channel in channels:
        channel.close()


def operations_of(channel: grpc.Channel, parent: str) -> dict[str, operations_pb2.Operation]:
    """Every operation of the zone by name."""
    stub = operations_pb2_grpc.OperationsStub(channel)
    found, token = {}, ""
    while True:
        page = stub.ListOperations(
            operations_pb2.ListOperationsRequest(name=parent, page_token=token), timeout=10
        )
        found.update((each.name, each) for each in page.operations)
        token = page.next_page_token
        if not token:
            return found
