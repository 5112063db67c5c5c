"""The permissions that Cloud Storage asks for, and its refusal of a caller who lacks them.

By method: cloud.google.com/storage/docs/access-control, pages iam-json and iam-xml. That an upload
over an existing object also asks for storage.objects.delete is left out: who may create here may
delete.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.objects.storage_model import StorageError
from localsim.services.net.wire_errors import HTTP_STATUS
from localsim.services.storage.routes import StorageRoute, find_route
from localsim.services.storage.wire.json_errors import error_response
from localsim.services.storage.xml import dispatch as storage_xml
from localsim.services.storage.xml.dispatch import XmlRoute
from localsim.services.storage.xml.xml_errors import error_response as xml_error_response

REASONS: Mapping[int, str] = {401: "authError", 403: "forbidden"}
_UNAUTHORIZED = 401

_ASKED: Mapping[str, Sequence[str]] = {
    "storage.buckets.insert": ("storage.buckets.create",),
    "storage.buckets.patch": ("storage.buckets.update",),
    "storage.buckets.lockRetentionPolicy": ("storage.buckets.update",),
    "storage.buckets.getStorageLayout": ("storage.objects.list",),
    "storage.buckets.testIamPermissions": (),
    "storage.notifications.list": ("storage.buckets.get",),
    "storage.notifications.get": ("storage.buckets.get",),
    "storage.notifications.insert": ("storage.buckets.update",),
    "storage.notifications.delete": ("storage.buckets.update",),
    "storage.objects.insert": ("storage.objects.create",),
    "storage.objects.patch": ("storage.objects.update",),
    "storage.objects.compose": ("storage.objects.get", "storage.objects.create"),
    "storage.objects.copy": ("storage.objects.get", "storage.objects.create"),
    "storage.objects.rewrite": ("storage.objects.get", "storage.objects.create"),
    "storage.objects.move": ("storage.objects.move", "storage.objects.create"),
    "storage.multipartUploads.put": ("storage.multipartUploads.create",),
    "storage.multipartUploads.complete": ("storage.multipartUploads.create",),
}
"""The methods that do not simply ask for the permission of their own name."""


def permissions_of(verb: str, raw_path: str) -> Sequence[str]:
    """The permissions that a request needs, such as `storage.objects.get`.

    None are needed for a request that is not a method of the API or that only Google has: it is
    refused elsewhere, as not implemented.
    """
    path, _, query = raw_path.partition("?")
    route: StorageRoute | XmlRoute | None
    if storage_xml.is_xml_path(path):
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        route = storage_xml.find_xml_route(verb, path, parameters)
    else:
        route, _ = find_route(verb, path) or (None, {})
    if route is None or (isinstance(route, StorageRoute) and route.is_absent):
        return ()
    return _ASKED.get(route.name, (route.name,))


def bucket_of(verb: str, raw_path: str) -> str:
    """The one bucket that a request is about; empty where it names none, or two."""
    path = raw_path.partition("?")[0]
    if storage_xml.is_xml_path(path):
        return unquote(path.strip("/").partition("/")[0])
    _, names = find_route(verb, path) or (None, {})
    found = [text for name, text in names.items() if name.lower().endswith("bucket")]
    return unquote(found[0]) if len(found) == 1 else ""


def permission_denied(email: str, permission: str) -> CloudError:
    """A refusal with PERMISSION_DENIED in the words of Cloud Storage."""
    kind = "object" if permission.startswith("storage.objects.") else "bucket"
    return CloudError(
        Code.PERMISSION_DENIED,
        f"{email} does not have {permission} access to the Google Cloud Storage {kind}. "
        f"Permission '{permission}' denied on resource (or it may not exist).",
    )


def refusal(request: web.Request, error: CloudError) -> web.Response:
    """The reply with a refusal, in the envelope of the API that was called.

    The JSON API does not say what is wrong with a token: storage/docs/json_api/v1/status-codes,
    authError. By these two words gcsfs knows a token that has expired, and tries again.
    """
    status = HTTP_STATUS[error.code]
    if storage_xml.is_xml_path(request.raw_path.partition("?")[0]):
        return xml_error_response(StorageError(status, REASONS[status], error.message))
    has_token = "Authorization" in request.headers
    message = "Invalid Credentials" if status == _UNAUTHORIZED and has_token else error.message
    return error_response(StorageError(status, REASONS[status], message))
