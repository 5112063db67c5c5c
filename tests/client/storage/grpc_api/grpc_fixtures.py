"""Cloud Storage over gRPC beside its JSON API, and Google's clients of it."""

import asyncio
import itertools
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import _storage_v2 as storage_v2
from google.cloud import storage_control_v2
from google.cloud.storage.asyncio.async_grpc_client import AsyncGrpcClient

from client.storage.storage_fixtures import HIERARCHICAL, Box, Service, new_box, running

ZONAL = {
    **HIERARCHICAL,
    "location": "us-central1",
    "storageClass": "RAPID",
    "customPlacementConfig": {"dataLocations": ["us-central1-a"]},
}
_NUMBERS = itertools.count(1)


@dataclass
class Wires:
    """One service, its clients over gRPC, and the loop of those that are asynchronous."""

    service: Service
    objects: storage_v2.StorageClient
    control: storage_control_v2.StorageControlClient
    runner: asyncio.Runner

    def new_box(self, **settings: object) -> Box:
        return new_box(self.service, **settings)

    def bucket(self, box: Box) -> str:
        return f"projects/_/buckets/{box.name}"

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def client(self) -> AsyncGrpcClient:
        """Google's asynchronous client; call it on the loop of the runner."""
        return grpc_client(self.service)


def grpc_client(service: Service) -> AsyncGrpcClient:
    """Google's asynchronous client of a service."""
    endpoint = ClientOptions(api_endpoint=f"127.0.0.1:{service.grpc_port}")
    return AsyncGrpcClient(credentials=AnonymousCredentials(), client_options=endpoint)


@pytest.fixture(scope="module")
def wires(tmp_path_factory) -> Iterator[Wires]:
    with (
        running(tmp_path_factory.mktemp("wires"), with_grpc=True) as service,
        grpc.insecure_channel(f"127.0.0.1:{service.grpc_port}") as channel,
        asyncio.Runner() as runner,
    ):
        objects = storage_v2.services.storage.transports.StorageGrpcTransport(channel=channel)
        control = storage_control_v2.StorageControlClient.get_transport_class("grpc")
        yield Wires(
            service,
            storage_v2.StorageClient(transport=objects),
            storage_control_v2.StorageControlClient(transport=control(channel=channel)),
            runner,
        )
