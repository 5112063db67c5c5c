"""The permissions that Cloud Storage asks for, and its refusal of a caller who lacks them.

By method: cloud.google.com/storage/docs/access-control, pages iam-json and iam-xml. That an upload
over an existing object also asks for storage.objects.delete is left out: who may create here may
delete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.objects.storage_model import ObjectKey, StorageError
from localsim.services.auth import iam
from localsim.services.net.wire_errors import HTTP_STATUS
from localsim.services.storage.methods.resumable import cancel_resumable, continue_resumable
from localsim.services.storage.routes import StorageRoute, find_route
from localsim.services.storage.wire.json_errors import AnonymousError, request_refusal
from localsim.services.storage.xml import dispatch as storage_xml
from localsim.services.storage.xml.dispatch import XmlRoute, is_xml_request
from localsim.services.storage.xml.form_uploads import is_form, upload_form
from localsim.services.storage.xml.session_uploads import cancel_session, continue_session
from localsim.services.storage.xml.xml_errors import error_response as xml_error_response
from localsim.services.storage.xml.xml_requests import copy_source

REASONS: Mapping[int, str] = {401: "authError", 403: "forbidden"}
_OF_SESSIONS = (continue_resumable, cancel_resumable, continue_session, cancel_session)
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_DIGITS = 19
NO_HEADERS: Mapping[str, str] = {}
_OF_TARGETS = ("storage.objects.create", "storage.multipartUploads.create")
"""The permissions on the bucket of a new object."""
_READ_BUCKET_LIST = ("storage.buckets.get", "storage.buckets.getIamPolicy")
_CHANGE_BUCKET_LIST = (
    *_READ_BUCKET_LIST,
    "storage.buckets.setIamPolicy",
    "storage.buckets.update",
)
_READ_OBJECT_LIST = ("storage.objects.get", "storage.objects.getIamPolicy")
_CHANGE_OBJECT_LIST = (
    *_READ_OBJECT_LIST,
    "storage.objects.setIamPolicy",
    "storage.objects.update",
)
_READS, _CHANGES = ("list", "get"), ("insert", "patch", "update", "delete")

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
    **{
        f"storage.{resource}.{method}": permissions
        for resource, reading, changing in (
            ("bucket_acl", _READ_BUCKET_LIST, _CHANGE_BUCKET_LIST),
            ("default_object_acl", _READ_BUCKET_LIST, _CHANGE_BUCKET_LIST),
            ("object_acl", _READ_OBJECT_LIST, _CHANGE_OBJECT_LIST),
        )
        for methods, permissions in ((_READS, reading), (_CHANGES, changing))
        for method in methods
    },
    "storage.objects.testIamPermissions": (),
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


@dataclass(frozen=True, slots=True)
class StorageNeeds:
    """What a request needs: permissions, each on a bucket or on an object in it.

    A key without a name is about the bucket alone, one without a bucket about the project.
    """

    of_permissions: Sequence[tuple[str, ObjectKey]]
    key: ObjectKey
    """What the request is about: its source, where it makes an object of others."""


def needs_of(verb: str, raw_path: str, headers: Mapping[str, str] = NO_HEADERS) -> StorageNeeds:
    """The permissions that a request needs, such as `storage.objects.get`, and where.

    None are needed for a request that is not a method of the API or that only Google has: it is
    refused elsewhere, as not implemented.
    """
    path, _, query = raw_path.partition("?")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    route: StorageRoute | XmlRoute | None
    if storage_xml.is_xml_path(path):
        route = storage_xml.find_xml_route(verb, path, parameters)
        bucket, _, name = path.removeprefix("/").partition("/")
        names: Mapping[str, str] = {"bucket": bucket, "object": name}
    else:
        route, names = find_route(verb, path) or (None, {})
    key = _key(names, parameters)
    if route is None or (isinstance(route, StorageRoute) and route.is_absent):
        return StorageNeeds((), key)
    target = _target(names, key)
    asked = _ASKED.get(route.name, (route.name,))
    needs = ((each, target if each in _OF_TARGETS else key) for each in asked)
    return StorageNeeds((*needs, *_needs_of_source(route, headers)), key)


def _needs_of_source(
    route: StorageRoute | XmlRoute, headers: Mapping[str, str]
) -> Sequence[tuple[str, ObjectKey]]:
    """What the copy of the XML API needs, whose source is in a header."""
    try:
        is_write = isinstance(route, XmlRoute) and route.name == "storage.objects.insert"
        source = copy_source(headers) if is_write else None
    except StorageError:  # the method says what is wrong with it
        return ()
    return () if source is None else (("storage.objects.get", source),)


def _key(names: Mapping[str, str], query: Mapping[str, str]) -> ObjectKey:
    generation = query.get("sourceGeneration") or query.get("generation") or ""
    number = int(generation) if generation.isdecimal() and len(generation) < _DIGITS else None
    bucket, name = (unquote(names.get(each) or "") for each in ("bucket", "object"))
    return ObjectKey(bucket, name, number)


def _target(names: Mapping[str, str], source: ObjectKey) -> ObjectKey:
    """The bucket that a new object is put into."""
    return ObjectKey(unquote(names.get("to_bucket") or "") or source.bucket, "")


def permission_denied(email: str, permission: str, *, wants_token: bool) -> CloudError:
    """A refusal in the words of Cloud Storage; `wants_token` where it would help to bring one."""
    code = Code.UNAUTHENTICATED if wants_token else Code.PERMISSION_DENIED
    return CloudError(code, iam.storage_refusal(email, permission))


def is_form_upload(request: web.Request) -> bool:
    """Whether a request is the upload of a form, whose sender is named in its body."""
    if not is_form(request) or "Authorization" in request.headers or not is_xml_request(request):
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
    path, _, query = request.raw_path.partition("?")
    route: StorageRoute | XmlRoute | None
    if storage_xml.is_xml_path(path):
        names = dict(parse_qsl(query, keep_blank_values=True))
        route = storage_xml.find_xml_route(request.method, path, names)
    else:
        route, _ = find_route(request.method, path) or (None, {})
    return route is not None and route.handler in _OF_SESSIONS


def xml_refusal(error: CloudError) -> StorageError:
    """A refusal in the words of the XML API, which has 403 for who brings no token."""
    is_anonymous = error.message.startswith(iam.ANONYMOUS)
    status = _FORBIDDEN if is_anonymous else HTTP_STATUS[error.code]
    return StorageError(status, REASONS[status], error.message)


def refusal(request: web.Request, error: CloudError | StorageError) -> web.Response:
    """The reply with a refusal, in the envelope of the API that was called.

    The JSON API does not say what is wrong with a token: storage/docs/json_api/v1/status-codes,
    authError. By these two words gcsfs knows a token that has expired, and tries again.
    """
    if isinstance(error, StorageError):  # of a signature, which only the XML API has
        return xml_error_response(error)
    if is_xml_request(request):
        return xml_error_response(xml_refusal(error))
    status = HTTP_STATUS[error.code]
    has_token = "Authorization" in request.headers
    if status == _UNAUTHORIZED and not has_token and error.message.startswith(iam.ANONYMOUS):
        return request_refusal(request, AnonymousError(error.message))
    message = "Invalid Credentials" if status == _UNAUTHORIZED and has_token else error.message
    return request_refusal(request, StorageError(status, REASONS[status], message))
