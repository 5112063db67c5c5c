"""Uploads by a form of a web page: POST of a bucket, under the conditions of a signed policy.

cloud.google.com/storage/docs/xml-api/post-object-forms
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from aiohttp import web

from localsim.rules.objects.encryption.protections import RequestKeys
from localsim.rules.objects.files.body_directory import IncomingBody
from localsim.rules.objects.storage_model import (
    Hashes,
    NewObject,
    StorageError,
    StoredObject,
    check_object_name,
    invalid,
    not_implemented,
)
from localsim.services.storage.methods.single_uploads import (
    data_key_of,
    receive_data,
    seal_body,
    with_encryption,
)
from localsim.services.storage.service import StorageService
from localsim.services.storage.signing.sent_requests import EXTENSIONS
from localsim.services.storage.signing.signature_errors import wrong_argument
from localsim.services.storage.signing.signature_verifier import Signer
from localsim.services.storage.signing.upload_policies import (
    UploadPolicy,
    parse_policy,
    policy_claim,
)
from localsim.services.storage.wire.encryption_headers import KEY_HEADER, KMS_HEADER
from localsim.services.storage.wire.form_data import FormParser
from localsim.services.storage.wire.json_requests import StorageCall
from localsim.services.storage.wire.multipart import boundary_of
from localsim.services.storage.xml.documents import xml_response
from localsim.services.storage.xml.xml_objects import written_headers
from localsim.services.storage.xml.xml_requests import (
    check_headers,
    described_properties,
    etag_of,
)

FORM = "multipart/form-data"
_FILE_NAME = "${filename}"
_EXTENSION = re.compile(
    r"x-(?:goog|amz)-(?:meta-.*|algorithm|credential|date|signature|acl|storage-class|custom-time"
    r"|content-sha256|encryption-.*|security-token)"
)
"""The fields that begin like Google's own headers, and are known."""
_STATUSES = ("200", "201", "204")

FormAuthorization = Callable[[Signer | None, str], None]
"""Checks whoever has signed a form, None for nobody, for a bucket; raises StorageError."""
FORM_AUTHORIZATION: web.RequestKey[FormAuthorization] = web.RequestKey("FORM_AUTHORIZATION")
"""Where a request carries that, if its sender has to be somebody."""


def is_form(request: web.Request) -> bool:
    """Whether a request is a form: who sends it is in there, and in no header."""
    return request.method == "POST" and request.content_type == FORM


async def upload_form(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Write the object that a form describes; its fields come before its file."""
    if not is_form(call.request):
        raise not_implemented(f"POST {call.request.raw_path.partition('?')[0]}")
    if "bucket" in call.names:
        service.buckets.get(call.bucket)
    parser = FormParser(boundary_of(call.request.headers.get("Content-Type", "")))
    incoming = service.objects.bodies.receive()
    try:
        new = await _receive(service, call, parser, incoming)
        body = await seal_body(service, incoming, new.expected)
        stored = await service.commit(service.objects.publish, new, body)
    finally:
        incoming.discard()
    call.trace.note_object(stored)
    return _answer(call, parser.fields, stored)


async def _receive(
    service: StorageService, call: StorageCall, parser: FormParser, incoming: IncomingBody
) -> NewObject:
    """Receive the file; what the fields say is checked before a byte of it is kept."""
    new, policy = None, None
    async for data in call.chunks():
        content = parser.feed(data)
        if new is None and parser.file_name is not None:
            bucket = _bucket(call, parser.fields)
            policy = _allowed(service, call, parser.fields, bucket)
            _require_bucket(service, bucket)
            new = _described(call, bucket, parser.fields, parser.file_name)
            new = _encrypted(service, new, parser.fields, incoming)
            await call.trace.begin_upload(new.name, total_bytes=call.request.content_length)
        await receive_data(incoming, content)
        if policy is not None:
            policy.check_size(incoming.size_bytes, is_whole=False)
    parser.check_end()
    if policy is not None:
        policy.check_size(incoming.size_bytes, is_whole=True)
    if new is None:
        raise invalid("The form has no file.")
    return new


def _bucket(call: StorageCall, fields: dict[str, str]) -> str:
    """The bucket that the path names, or the form, or else its policy."""
    if "bucket" in call.names:
        return call.bucket
    if "bucket" not in fields and "policy" in fields:
        return parse_policy(fields["policy"]).wanted("bucket")
    return fields.get("bucket", "")


def _require_bucket(service: StorageService, bucket: str) -> None:
    try:
        service.buckets.get(bucket)
    except StorageError as absent:
        raise StorageError(404, "NoSuchBucket", absent.message) from None


def _allowed(
    service: StorageService, call: StorageCall, fields: dict[str, str], bucket: str
) -> UploadPolicy | None:
    """The policy of the form, after all of its conditions but those on the file have been met."""
    claim = policy_claim(fields)
    signer = None if claim is None else service.signatures.verify(claim)
    authorize = call.request.get(FORM_AUTHORIZATION)
    if authorize is not None:
        authorize(signer, bucket)
    if claim is None:
        return None
    policy = parse_policy(fields["policy"])
    policy.check(fields, bucket, service.signatures.now())
    return policy


def _described(call: StorageCall, bucket: str, fields: dict[str, str], file_name: str) -> NewObject:
    name = fields.get("key", "").replace(_FILE_NAME, file_name)
    if not name:
        raise wrong_argument("The field key is missing.")
    check_object_name(name)
    for field in fields:
        if field.startswith(EXTENSIONS) and not _EXTENSION.fullmatch(field):
            raise wrong_argument(f"{field} is not a field of a form.")
    acl = {"x-goog-acl": fields["acl"]} if "acl" in fields else {}
    headers = {**fields, **acl}
    check_headers(headers)
    return NewObject(bucket, name, described_properties(call, headers), expected=Hashes())


def _encrypted(
    service: StorageService, new: NewObject, fields: dict[str, str], incoming: IncomingBody
) -> NewObject:
    """The object, whose bytes are encrypted with the key of Cloud KMS that is meant, if any."""
    if KEY_HEADER.lower() in fields:
        raise not_implemented(f"The field {KEY_HEADER} of a form")
    keys = RequestKeys(kms_key_name=fields.get(KMS_HEADER.lower(), ""))
    protection = service.objects.protections.choose(service.buckets.get(new.bucket), keys)
    data_key, encryption = data_key_of(protection)
    incoming.encrypt(data_key)
    return with_encryption(new, encryption)


def _answer(call: StorageCall, fields: dict[str, str], stored: StoredObject) -> web.Response:
    """The reply that the form asks for; 204 where it asks for none that there is."""
    location = f"{call.origin}/{stored.bucket}/{quote(stored.name, safe='/~')}"
    headers = {**written_headers(stored), "Location": location}
    target = _redirect(fields.get("success_action_redirect", ""), stored)
    if target:
        return web.Response(status=303, headers={**headers, "Location": target})
    status = fields.get("success_action_status", "")
    if status != "201":
        return web.Response(status=int(status) if status in _STATUSES else 204, headers=headers)
    tree: Any = (
        ("Location", location),
        ("Bucket", stored.bucket),
        ("Key", stored.name),
        ("ETag", etag_of(stored)),
    )
    response = xml_response("PostResponse", tree, status=201)
    response.headers.update(headers)
    return response


def _redirect(target: str, stored: StoredObject) -> str:
    """Where the browser goes next, told what was written; nothing for what is not an address."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc or not target.isprintable():
        return ""
    told = [("bucket", stored.bucket), ("key", stored.name), ("etag", etag_of(stored))]
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query), *told])))
