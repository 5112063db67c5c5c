"""What Cloud Storage's JSON API asks a caller to be allowed, and how it refuses one who is not."""

import re
from collections.abc import Mapping
from typing import Any

from localsim.cloud.errors import CloudError, Code
from localsim.services.wire_errors import HTTP_STATUS

_UPLOADS = ("/upload/", "/resumable/upload/")
_OF_OBJECTS = re.compile(r"(?:/download)?/storage/v1/b/[^/]+/o(?:/|$)")
_COLLECTION = re.compile(r"/storage/v1/b(?:/[^/]+/o)?")
REASONS: Mapping[int, str] = {401: "authError", 403: "forbidden"}
_VERBS: Mapping[str, str] = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "update",
    "DELETE": "delete",
}


def permission_of(verb: str, raw_path: str) -> str:
    """`storage.objects.get` and the like, by the shape of the path."""
    if raw_path.startswith(_UPLOADS):
        return "storage.objects.create"
    kind = "objects" if _OF_OBJECTS.match(raw_path) else "buckets"
    if verb == "GET" and _COLLECTION.fullmatch(raw_path):
        return f"storage.{kind}.list"
    return f"storage.{kind}.{_VERBS.get(verb, 'get')}"


def denied(email: str, permission: str) -> CloudError:
    """PERMISSION_DENIED, as this API words it."""
    kind = "object" if permission.startswith("storage.objects.") else "bucket"
    return CloudError(
        Code.PERMISSION_DENIED,
        f"{email} does not have {permission} access to the Google Cloud Storage {kind}. "
        f"Permission '{permission}' denied on resource (or it may not exist).",
    )


def refusal(error: CloudError) -> tuple[int, dict[str, Any]]:
    """Status and body in the envelope of this API."""
    status = HTTP_STATUS[error.code]
    detail = {"message": error.message, "domain": "global", "reason": REASONS[status]}
    return status, {"error": {"code": status, "message": error.message, "errors": [detail]}}
