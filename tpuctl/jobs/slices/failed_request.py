"""What a queued resource that FAILED says: whether to try again, elsewhere or later, or never."""

from tpuctl.api.tpu.explain import ABORTED, error_for
from tpuctl.api.tpu.hints import QR, CallSubject
from tpuctl.errors import (
    CapacityError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UsageError,
)
from tpuctl.jobs.policy.observation import SliceRefusal
from tpuctl.models.operation import Status
from tpuctl.models.queued_resource import QueuedResource

CANCELLED = 1
"""Its node was deleted by somebody while it was made."""
PERMANENT_ERRORS = (UsageError, PermissionDeniedError, PreconditionError, NotFoundError)


def refusal_of(request: QueuedResource) -> SliceRefusal:
    """The reason in tpuctl's words; no chips, no quota and a slice lost at birth may pass."""
    subject = f"queued resource {request.name!r} FAILED"
    if not request.failure:
        return SliceRefusal("the queued resource FAILED", CapacityError.reason, request.name)
    about = CallSubject(
        subject, QR, request.name, request.zone, accelerator_type=request.accelerator_type
    )
    error = error_for(Status(request.failure_code, request.failure), about)
    if request.failure_code == CANCELLED:
        return SliceRefusal(
            "its slice was deleted by somebody", PreconditionError.reason, request.name
        )
    lasts = isinstance(error, PERMANENT_ERRORS) and request.failure_code != ABORTED
    kind = error.reason if lasts else CapacityError.reason
    return SliceRefusal(str(error), kind, request.name, is_shortage=not lasts)
