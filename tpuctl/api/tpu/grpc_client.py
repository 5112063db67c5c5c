"""One lean channel for Google's messages: deadlines, retries and routing headers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from random import Random
from typing import Any, TypeVar

import grpc
from google.longrunning import operations_pb2

from tpuctl.api.tpu import decode, retry
from tpuctl.api.tpu.versions import V2, Version
from tpuctl.errors import IntegrityError
from tpuctl.models.operation import Operation
from tpuctl.page_tokens import read_pages

Item = TypeVar("Item")

PAGE_SIZE = 500
NEXT_TOKEN: Callable[[Any], str] = attrgetter("next_page_token")
REPLIES = {"GetNode": "Node", "GetQueuedResource": "QueuedResource"}
Routing = Mapping[str, str]
"""The one field that says where a call belongs."""


@dataclass(frozen=True, slots=True)
class GrpcClient:
    """Sends one call at a time; raises what gRPC raises."""

    channel: grpc.Channel
    sleep: Callable[[float], None]
    random: Random

    def call(
        self, method: str, request: Mapping[str, Any], routing: Routing, version: Version = V2
    ) -> Any:
        """The reply of a method of the Tpu service."""
        reply = version.reply_class(REPLIES.get(method, f"{method}Response"))
        message = version.message(f"{method}Request", request)
        return self.send(f"{version.service}/{method}", message, reply, routing)

    def change(
        self, method: str, request: Mapping[str, Any], routing: Routing, version: Version = V2
    ) -> Operation:
        """The operation of a method that changes something; done already where it was gone."""
        message = version.message(f"{method}Request", request)
        reply = self.send(f"{version.service}/{method}", message, operations_pb2.Operation, routing)
        return Operation("", done=True) if reply is None else decode.operation(reply)

    def pages(
        self,
        method: str,
        parent: str,
        rows: Callable[[Any], Iterable[Item]],
        version: Version = V2,
    ) -> tuple[list[Item], list[str]]:
        """The rows of all pages of a list, and the zones that could not be asked."""

        def fetch(token: str) -> Any:
            request = {"parent": parent, "page_size": PAGE_SIZE, "page_token": token}
            return self.call(method, request, {"parent": parent}, version)

        items: list[Item] = []
        unreachable: list[str] = []
        for page in read_pages(fetch, NEXT_TOKEN, IntegrityError, f"{method} of {parent}"):
            items += rows(page)
            silent = getattr(page, "unreachable", ())  # a list of reservations has none
            unreachable += [place.rpartition("/")[2] for place in silent]
        return items, list(dict.fromkeys(unreachable))  # every page may name them

    def send(self, path: str, request: Any, reply: Any, routing: Routing) -> Any:
        """Send one call with the deadline and the retries of its method; returns the reply."""
        send = self.channel.unary_unary(
            f"/{path}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        ((key, value),) = routing.items()
        headers = (("x-goog-request-params", f"{key}={value}"),)
        return retry.call_with_retries(
            lambda attempt_s: send(request, timeout=attempt_s, metadata=headers),
            retry.policy(path.rpartition("/")[2], request),
            sleep=self.sleep,
            random=self.random,
        )
