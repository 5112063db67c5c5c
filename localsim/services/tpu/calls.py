"""One call of a Cloud TPU method over either wire: faults first, then the answer."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from localsim.rules.cloud import Cloud
from localsim.rules.model.cloud_errors import CloudError, Code, with_error_id
from localsim.rules.scenario.fault_types import FaultEffect
from localsim.services.tpu.tpu_methods import Method

Answer = TypeVar("Answer")


class CloudPort(Protocol):
    """The orchestrator, as servers need it."""

    async def run(self, action: Callable[[Cloud], Answer]) -> Answer:
        """Run `action` on the cloud; return its result once it is on disk."""

    def project_changed(self) -> None:
        """Show the project's metadata, as it is now, to all workers."""

    async def meet_fault(self, method: str) -> FaultEffect | None:
        """The effect of the faults of a call, or None, after its latency has passed."""


_TEXTS = {
    Code.CANCELLED: "The operation was cancelled.",
    Code.UNKNOWN: "Unknown error.",
    Code.INVALID_ARGUMENT: "Request contains an invalid argument.",
    Code.DEADLINE_EXCEEDED: "Deadline expired before operation could complete.",
    Code.NOT_FOUND: "Requested entity was not found.",
    Code.ALREADY_EXISTS: "Requested entity already exists",
    Code.PERMISSION_DENIED: "The caller does not have permission",
    Code.RESOURCE_EXHAUSTED: "Resource has been exhausted (e.g. check quota).",
    Code.FAILED_PRECONDITION: "Precondition check failed.",
    Code.ABORTED: "The operation was aborted.",
    Code.OUT_OF_RANGE: "Requested value is out of range.",
    Code.UNIMPLEMENTED: "Operation is not implemented, or supported, or enabled.",
    Code.INTERNAL: "Internal error encountered.",
    Code.UNAVAILABLE: "The service is currently unavailable.",
    Code.DATA_LOSS: "Unrecoverable data loss or corruption.",
    Code.UNAUTHENTICATED: "Request had invalid authentication credentials.",
}
"""What Google's front end says of a code when the service says nothing."""

_REFUSED_CREATION = with_error_id("Cloud TPU was unable to complete the operation.")
"""What Cloud TPU itself says of a creation that it refuses without a reason."""


class ConnectionDroppedError(Exception):
    """A fault drops the client's connection without an answer."""


async def answer_call(cloud_port: CloudPort, method: Method, request: Callable[[], Any]) -> bytes:
    """The encoded response; `request` reads the message, after the faults have had their turn.

    Raises CloudError, ConnectionDroppedError, and whatever is a fault of localsim's own.
    """
    fault = await cloud_port.meet_fault(method.name)
    if fault is not None and fault.reset:
        raise ConnectionDroppedError
    if fault is not None and fault.code is not None:
        is_creation = method.name.startswith("Create") and fault.code == Code.INVALID_ARGUMENT
        raise CloudError(fault.code, _REFUSED_CREATION if is_creation else _TEXTS[fault.code])
    message = request()

    def answer(cloud: Cloud) -> bytes:
        cloud.require_enabled()
        return method.run(cloud, message)

    reply = await cloud_port.run(answer)
    if fault is not None and fault.loses_answer:
        raise ConnectionDroppedError
    return reply
