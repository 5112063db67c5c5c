"""The method table of the emulated services with their message classes, for both wires."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf.empty_pb2 import Empty

from localsim.cloud.cloud import Cloud
from localsim.cloud.model.operations import Operation
from localsim.services.tpu.proto_messages import GRPC_MESSAGES
from localsim.services.tpu.rest_messages import REST_MESSAGES
from localsim.services.tpu.tpu_rows import (
    Answer,
    MethodRow,
    location_rows,
    method_rows,
    operation_rows,
)
from localsim.services.tpu.tpu_views import TpuViews

OPERATIONS = "google.longrunning.Operations"
LOCATIONS = "google.cloud.location.Locations"

_SHARED = {"Operation": operations_pb2.Operation, "Empty": Empty}


@dataclass(frozen=True, slots=True)
class Method:
    """How a method is called, on each wire, and what answers it."""

    service: str
    name: str
    version: str
    """Of the API; the mixed-in services have it over REST only, there from the path."""
    request: Any
    response: Any
    answer: Answer
    http: str

    @property
    def full_name(self) -> str:
        """The method's path in gRPC."""
        return f"/{self.service}/{self.name}"

    def run(self, cloud: Cloud, request: Any) -> bytes:
        """The encoded response to a message."""
        if self.version:
            cloud.set_api_version(self.version)
        reply = self.answer(cloud, request)
        return reply if isinstance(reply, bytes) else bytes(reply.SerializeToString())


@cache
def all_methods() -> tuple[Method, ...]:
    """Both versions, and what is mixed into them once: what is served over gRPC.

    An operation is shown in the messages of the version that it was begun with, for the clients
    take no other, and the mixed-in service does not say which one is asking.
    """
    views = {version: TpuViews(messages) for version, messages in GRPC_MESSAGES.items()}

    def shown(operation: Operation) -> Any:
        return views[operation.api_version].operation(operation)

    return (
        *(method for each in views.values() for method in _tpu_methods(each)),
        *_mixed_in("", OPERATIONS, operations_pb2, operation_rows(shown)),
        *_mixed_in("", LOCATIONS, locations_pb2, location_rows()),
    )


@cache
def rest_methods(version: str) -> tuple[Method, ...]:
    """The methods of one version, and of the services mixed into it.

    Operations are shown in the version's messages.
    """
    views = TpuViews(REST_MESSAGES[version])
    return (
        *_tpu_methods(views),
        *_mixed_in(version, OPERATIONS, operations_pb2, operation_rows(views.operation)),
        *_mixed_in(version, LOCATIONS, locations_pb2, location_rows()),
    )


def _tpu_methods(views: TpuViews) -> Iterator[Method]:
    messages = views.messages
    for name, http, response, answer in method_rows(views):
        yield Method(
            service=f"{messages.package}.Tpu",
            name=name,
            version=messages.version,
            request=messages[f"{name}Request"],
            response=_SHARED.get(response) or messages[response],
            answer=answer,
            http=http,
        )


def _mixed_in(
    version: str, service: str, types: Any, found: Sequence[MethodRow]
) -> Iterator[Method]:
    for name, http, response, answer in found:
        request = getattr(types, f"{name}Request")
        reply = _SHARED.get(response) or getattr(types, response)
        yield Method(service, name, version, request, reply, answer, http)
