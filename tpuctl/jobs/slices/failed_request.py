"""What a queued resource that FAILED says: whether to try again, elsewhere or later, or never."""

from tpuctl.api.tpu.explain import ABORTED, explained
from tpuctl.api.tpu.next_step import QR, About
from tpuctl.errors import (
    CapacityError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UsageError,
)
from tpuctl.jobs.policy.observed import Refusal
from tpuctl.models.operation import Status
from tpuctl.models.queued_resource import QueuedResource

CANCELLED = 1
"""Its node was deleted by somebody while it was made."""
FOR_EVER = (UsageError, PermissionDeniedError, PreconditionError, NotFoundError)


def why_failed(request: QueuedResource) -> Refusal:
    """The reason in tpuctl's words; no chips, no quota and a slice lost at birth may pass."""
    subject = f"queued resource {request.name!r} FAILED"
    if not request.failure:
        return Refusal("the queued resource FAILED", CapacityError.reason, request.name)
    about = About(
        subject, QR, request.name, request.zone, accelerator_type=request.accelerator_type
    )
    error = explained(Status(request.failure_code, request.failure), about)
    if request.failure_code == CANCELLED:
        return Refusal("its slice was deleted by somebody", PreconditionError.reason, request.name)
    lasts = isinstance(error, FOR_EVER) and request.failure_code != ABORTED
    kind = error.reason if lasts else CapacityError.reason
    return Refusal(str(error), kind, request.name, is_shortage=not lasts)
