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
from localsim.services.storage.wire.json_errors import request_refusal
from localsim.services.storage.xml import dispatch as storage_xml
from localsim.services.storage.xml.dispatch import XmlRoute
from localsim.services.storage.xml.form_uploads import is_form, upload_form
from localsim.services.storage.xml.xml_errors import error_response as xml_error_response

REASONS: Mapping[int, str] = {401: "authError", 403: "forbidden"}
_UNAUTHORIZED = 401

_ASKED: Mapping[str, Sequence[str]] = {
    "storage.buckets.insert": ("storage.buckets.create",),
    "storage.buckets.patch": ("storage.buckets.update",),
    "storage.buckets.lockRetentionPolicy": ("storage.buckets.update",),
    "storage.buckets.getStorageLayout": ("storage.objects.list",),
    "storage.buckets.testIamPermissions": (),
    "storage.folders.insert": ("storage.folders.create",),
    "storage.folders.deleteRecursive": ("storage.folders.delete", "storage.objects.delete"),
    "storage.folders.rename": ("storage.folders.rename", "storage.folders.create"),
    "storage.managedFolders.insert": ("storage.managedFolders.create",),
    "storage.managedFolders.testIamPermissions": (),
    "storage.objects.insert": ("storage.objects.create",),
    "storage.objects.patch": ("storage.objects.update",),
    "storage.objects.compose": ("storage.objects.get", "storage.objects.create"),
    "storage.objects.copy": ("storage.objects.get", "storage.objects.create"),
    "storage.objects.rewrite": ("storage.objects.get", "storage.objects.create"),
    "storage.objects.move": ("storage.objects.move", "storage.objects.create"),
    **{
        f"storage.projects.hmacKeys.{verb}": (f"storage.hmacKeys.{verb}",)
        for verb in ("create", "delete", "get", "list", "update")
    },
    "storage.projects.serviceAccount.get": ("resourcemanager.projects.get",),
    "storage.objects.restore": ("storage.objects.restore", "storage.objects.create"),
    "storage.objects.bulkRestore": (
        "storage.buckets.restore",
        "storage.objects.restore",
        "storage.objects.create",
    ),
    **{
        f"storage.buckets.operations.{verb}": (f"storage.bucketOperations.{verb}",)
        for verb in ("list", "get", "cancel")
    },
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


def is_xml(request: web.Request) -> bool:
    """Whether a request is one of the XML API."""
    return storage_xml.is_xml_path(request.raw_path.partition("?")[0])


def is_form_upload(request: web.Request) -> bool:
    """Whether a request is the upload of a form, whose sender is named in its body."""
    if not is_form(request) or "Authorization" in request.headers or not is_xml(request):
        return False
    path, _, query = request.raw_path.partition("?")
    names = dict(parse_qsl(query, keep_blank_values=True))
    route = storage_xml.find_xml_route(request.method, path, names)
    return route is not None and route.handler is upload_form


def is_of_session(request: web.Request) -> bool:
    """Whether a request has the URL of an upload session, which is a credential by itself.

    cloud.google.com/storage/docs/resumable-uploads#session-uris
    """
    if request.method not in ("PUT", "DELETE") or not request.query.get("upload_id"):
        return False
    path = request.raw_path.partition("?")[0]
    route: StorageRoute | XmlRoute | None
    if storage_xml.is_xml_path(path):
        route = storage_xml.find_xml_route(request.method, path, {"upload_id": ""})
    else:
        route, _ = find_route(request.method, path) or (None, {})
    return route is not None and route.name == "storage.objects.insert"


def xml_refusal(error: CloudError) -> StorageError:
    """A refusal in the words of the XML API."""
    status = HTTP_STATUS[error.code]
    return StorageError(status, REASONS[status], error.message)


def refusal(request: web.Request, error: CloudError | StorageError) -> web.Response:
    """The reply with a refusal, in the envelope of the API that was called.

    The JSON API does not say what is wrong with a token: storage/docs/json_api/v1/status-codes,
    authError. By these two words gcsfs knows a token that has expired, and tries again.
    """
    if isinstance(error, StorageError):  # of a signature, which only the XML API has
        return xml_error_response(error)
    if is_xml(request):
        return xml_error_response(xml_refusal(error))
    status = HTTP_STATUS[error.code]
    has_token = "Authorization" in request.headers
    message = "Invalid Credentials" if status == _UNAUTHORIZED and has_token else error.message
    return request_refusal(request, StorageError(status, REASONS[status], message))
