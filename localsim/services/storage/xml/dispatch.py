"""Cloud Storage's XML API: `/BUCKET` and `/BUCKET/OBJECT`.

It has the paths that are not below those of the JSON API and the retry tests. A bucket may be named
`storage` or `upload`, so not the first segment decides but the shape of the whole: of such a bucket
only the objects whose names continue one of those paths, `v1/...`, are out of reach here.
A bucket in the name of the host (`BUCKET.storage.googleapis.com`) is in the path already.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from aiohttp import web

from localsim.rules.objects.storage_model import StorageError, not_implemented
from localsim.services.net.google_hosts import JSON_API_HOST
from localsim.services.storage.service import Handler, StorageService, answer_call
from localsim.services.storage.signing.signed_requests import signer_of
from localsim.services.storage.wire.json_requests import decode_segment
from localsim.services.storage.xml import acl_requests as acl
from localsim.services.storage.xml import bucket_writes
from localsim.services.storage.xml import form_uploads as forms
from localsim.services.storage.xml import multipart_methods as uploads
from localsim.services.storage.xml import session_uploads as sessions
from localsim.services.storage.xml import xml_buckets as buckets
from localsim.services.storage.xml import xml_objects as objects
from localsim.services.storage.xml.xml_requests import XmlCall, check_headers, parse_xml_query

_OF_OTHERS = re.compile(
    r"/(?:(?:(?:download|upload|resumable/upload)/)?storage/v1|batch/storage/v1|retry_tests?)"
    r"(?:/[\s\S]*)?"
)
_TARGET = re.compile(r"/(?:(?P<bucket>[^/]+)(?:/(?P<object>[\s\S]*))?)?")


class XmlRoute(NamedTuple):
    """A method by the name that the JSON API has or would have for it, and who serves it."""

    name: str
    handler: Handler


_KINDS = _SERVICE, _BUCKET, _OBJECT = "service", "bucket", "object"

_ROUTES: Mapping[tuple[str, str, str], XmlRoute] = {
    (_SERVICE, "GET", ""): XmlRoute("storage.buckets.list", buckets.list_buckets),
    (_BUCKET, "GET", ""): XmlRoute("storage.objects.list", buckets.list_objects),
    (_BUCKET, "HEAD", ""): XmlRoute("storage.buckets.get", buckets.head_bucket),
    (_BUCKET, "PUT", ""): XmlRoute("storage.buckets.insert", bucket_writes.put_bucket),
    (_BUCKET, "DELETE", ""): XmlRoute("storage.buckets.delete", bucket_writes.delete_bucket),
    (_BUCKET, "GET", "versions"): XmlRoute("storage.objects.list", bucket_writes.list_versions),
    (_BUCKET, "GET", "versioning"): XmlRoute("storage.buckets.get", bucket_writes.get_versioning),
    (_BUCKET, "PUT", "versioning"): XmlRoute("storage.buckets.patch", bucket_writes.put_versioning),
    (_BUCKET, "GET", "uploads"): XmlRoute("storage.multipartUploads.list", uploads.list_uploads),
    (_BUCKET, "GET", "acl"): XmlRoute("storage.bucket_acl.list", acl.get_bucket_list),
    (_BUCKET, "PUT", "acl"): XmlRoute("storage.bucket_acl.update", acl.put_bucket_list),
    (_BUCKET, "GET", "defaultObjectAcl"): XmlRoute(
        "storage.default_object_acl.list", acl.get_default_list
    ),
    (_BUCKET, "PUT", "defaultObjectAcl"): XmlRoute(
        "storage.default_object_acl.update", acl.put_default_list
    ),
    (_OBJECT, "GET", "acl"): XmlRoute("storage.object_acl.list", acl.get_object_list),
    (_OBJECT, "PUT", "acl"): XmlRoute("storage.object_acl.update", acl.put_object_list),
    (_OBJECT, "GET", ""): XmlRoute("storage.objects.get", objects.get_object),
    (_OBJECT, "HEAD", ""): XmlRoute("storage.objects.get", objects.get_object),
    (_OBJECT, "PUT", ""): XmlRoute("storage.objects.insert", objects.put_object),
    (_OBJECT, "DELETE", ""): XmlRoute("storage.objects.delete", objects.delete_object),
    (_SERVICE, "POST", ""): XmlRoute("storage.objects.insert", forms.upload_form),
    (_BUCKET, "POST", ""): XmlRoute("storage.objects.insert", forms.upload_form),
    (_OBJECT, "POST", ""): XmlRoute("storage.objects.insert", sessions.start_session),
    (_OBJECT, "PUT", "upload_id"): XmlRoute("storage.objects.insert", sessions.continue_session),
    (_OBJECT, "DELETE", "upload_id"): XmlRoute("storage.objects.insert", sessions.cancel_session),
    (_OBJECT, "POST", "uploads"): XmlRoute("storage.multipartUploads.create", uploads.start_upload),
    (_OBJECT, "PUT", "uploadId"): XmlRoute("storage.multipartUploads.put", uploads.put_part),
    (_OBJECT, "GET", "uploadId"): XmlRoute(
        "storage.multipartUploads.listParts", uploads.list_parts
    ),
    (_OBJECT, "POST", "uploadId"): XmlRoute(
        "storage.multipartUploads.complete", uploads.complete_upload
    ),
    (_OBJECT, "DELETE", "uploadId"): XmlRoute(
        "storage.multipartUploads.abort", uploads.abort_upload
    ),
}
"""By what the path names, the verb, and the subresource in the query."""


_SUBRESOURCES = (
    *("uploads", "uploadId", "upload_id"),
    *("acl", "defaultObjectAcl", "versions", "versioning"),
)


def is_xml_path(raw_path: str) -> bool:
    """Whether a path, without its query, is one of the XML API's."""
    return _OF_OTHERS.fullmatch(raw_path) is None


def is_xml_request(request: web.Request) -> bool:
    """Whether a request is one of the XML API, which www.googleapis.com does not serve."""
    path = request.raw_path.partition("?")[0]
    return is_xml_path(path) and request.host.partition(":")[0] != JSON_API_HOST


def find_xml_route(verb: str, raw_path: str, names: Mapping[str, str]) -> XmlRoute | None:
    """The method that a request calls; `names` are those of its query."""
    if _TARGET.fullmatch(raw_path) is None:
        return None
    kind = _KINDS[len(_segments(raw_path))]
    subresource = next((name for name in _SUBRESOURCES if name in names), "")
    if "partNumber" in names and not subresource:
        return None
    return _ROUTES.get((kind, verb, subresource))


async def answer(service: StorageService, request: web.Request) -> web.StreamResponse:
    """What the method answers; raises StorageError."""
    signer_of(service.signatures, request)  # refuses what is not signed right
    path, _, text = request.raw_path.partition("?")
    query = parse_xml_query(text)
    route = find_xml_route(request.method, path, query)
    is_resumable = sessions.RESUMABLE in request.headers
    if route is None or is_resumable != (route.handler is sessions.start_session):
        raise not_implemented(f"{request.method} {path}")
    if route.handler is not sessions.continue_session:  # what is to be written was said before
        check_headers(request.headers)
    names = {name: decode_segment(segment) for name, segment in _segments(path).items()}
    call = XmlCall(request, route.name, names, query)
    try:
        return await answer_call(service, call, route.handler)
    except StorageError as error:
        raise _of_bucket(service, names, error) from None


def _segments(raw_path: str) -> dict[str, str]:
    """Bucket and object, still percent-encoded, as far as the path names them."""
    match = _TARGET.fullmatch(raw_path)
    return {} if match is None else {name: text for name, text in match.groupdict().items() if text}


def _of_bucket(
    service: StorageService, names: Mapping[str, str], error: StorageError
) -> StorageError:
    """Whether it is the bucket that is not there: here that has a code of its own."""
    if error.code != 404 or error.reason != "notFound" or "bucket" not in names:  # noqa: PLR2004
        return error
    try:
        service.buckets.get(names["bucket"])
    except StorageError as absent:
        return StorageError(404, "NoSuchBucket", absent.message)
    return error
