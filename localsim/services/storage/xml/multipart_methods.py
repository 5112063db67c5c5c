"""Multipart uploads of the XML API: start, send parts, look, complete, abort.

Two things are refused that Google's documentation says it does not do: conditions on what the
object replaces, and more than 10,000 parts.
"""

from xml.parsers import expat

from aiohttp import web

from localsim.rules.objects.encryption.protections import Protection
from localsim.rules.objects.properties import WRAPPED_KEYS
from localsim.rules.objects.storage_model import NO_PRECONDITIONS, StorageError, invalid
from localsim.rules.objects.uploads.multipart_uploads import (
    MAX_PARTS,
    ClaimedPart,
    MultipartUpload,
    UploadPart,
    UploadsQuery,
)
from localsim.services.storage.methods.single_uploads import (
    data_key_of,
    upload_keys,
    with_encryption,
)
from localsim.services.storage.resources.object_resources import timestamp
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.json_requests import (
    MAX_JSON_BYTES,
    StorageCall,
    expected_hashes,
    read_all,
    required_parameter,
)
from localsim.services.storage.xml.documents import OF_UPLOADS, Tree, xml_response
from localsim.services.storage.xml.xml_buckets import Spell, page_limit, spelling
from localsim.services.storage.xml.xml_objects import new_object, receive_body, written_headers
from localsim.services.storage.xml.xml_requests import etag_of, parse_number

_ROOT = "CompleteMultipartUpload"
_FIELDS = ("PartNumber", "ETag")
_MAX_DIGITS = 9
_SEPARATOR = " "


async def start_upload(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Begin an upload; the headers say what the object will be."""
    new = new_object(call)
    _check_unconditional(call)
    keys = upload_keys(call, {})

    def begin() -> str:
        protection = service.objects.protections.choose(service.buckets.get(call.bucket), keys)
        shown = {} if protection is None else protection.shown
        return service.objects.parts.start(with_encryption(new, shown))

    upload_id = await service.commit(begin)
    call.trace.note_session(upload_id, new.name)
    tree = (("Bucket", call.bucket), ("Key", call.key.name), ("UploadId", upload_id))
    return xml_response("InitiateMultipartUploadResult", tree, OF_UPLOADS)


async def put_part(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Receive a part, in place of an earlier one of the same number."""
    upload_id, part_number = required_parameter(call.query, "uploadId"), _part_number(call)
    parts = service.objects.parts
    protection = _protection(service, call, parts.require(call.key, upload_id))
    data_key, encryption = data_key_of(protection)
    (wrapped_key,) = encryption.get(WRAPPED_KEYS, [None])
    if "x-goog-copy-source" in call.request.headers or "x-amz-copy-source" in call.request.headers:
        raise invalid("A part cannot be the copy of an object.")
    name = call.key.name
    await call.trace.begin_upload(name, total_bytes=None, upload_id=upload_id, position=None)
    incoming = service.objects.bodies.receive()
    incoming.encrypt(data_key)
    incoming.create()  # small as it may be, its file becomes one of the object's
    try:
        expected = expected_hashes({}, call)
        body = await receive_body(service, call, incoming, expected)
        put = parts.put
        part = await service.commit(put, call.key, upload_id, part_number, body, wrapped_key)
    finally:
        incoming.discard()
    sums = f"crc32c={part.crc32c},md5={part.md5}"
    return web.Response(headers={"ETag": f'"{part.etag}"', "X-Goog-Hash": sums})


async def list_parts(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of the parts that have come."""
    upload_id = required_parameter(call.query, "uploadId")
    after = parse_number(call.query, "part-number-marker") or 0
    limit = page_limit(call.query, "max-parts")
    parts = service.objects.parts.list(call.key, upload_id, after=after, limit=limit + 1)
    page = parts[:limit]
    is_truncated = bool(page) and len(parts) > limit
    tree: Tree = (
        ("Bucket", call.bucket),
        ("Key", spelling(call.query)(call.key.name)),
        ("UploadId", upload_id),
        ("StorageClass", "STANDARD"),
        ("PartNumberMarker", after),
        ("NextPartNumberMarker", page[-1].number if is_truncated else None),
        ("MaxParts", limit),
        ("IsTruncated", str(is_truncated).lower()),
        *(("Part", _part_tree(part)) for part in page),
    )
    return xml_response("ListPartsResult", tree, OF_UPLOADS)


async def list_uploads(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """One page of a bucket's uploads under way."""
    service.buckets.get(call.bucket)
    limit, spell = page_limit(call.query, "max-uploads"), spelling(call.query)
    query = UploadsQuery(
        prefix=call.query.get("prefix", ""),
        name_marker=call.query.get("key-marker", ""),
        id_marker=call.query.get("upload-id-marker", ""),
        limit=limit + 1,
    )
    uploads = service.objects.parts.list_uploads(call.bucket, query)
    page = uploads[:limit]
    is_truncated = bool(page) and len(uploads) > limit
    tree: Tree = (
        ("Bucket", call.bucket),
        ("Prefix", spell(query.prefix)),
        ("KeyMarker", spell(query.name_marker)),
        ("UploadIdMarker", query.id_marker),
        ("NextKeyMarker", spell(page[-1].name) if is_truncated else None),
        ("NextUploadIdMarker", page[-1].id if is_truncated else None),
        ("MaxUploads", limit),
        ("IsTruncated", str(is_truncated).lower()),
        *(("Upload", _upload_tree(upload, spell)) for upload in page),
    )
    return xml_response("ListMultipartUploadsResult", tree, OF_UPLOADS)


async def complete_upload(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Make the object of the parts that the body lists."""
    upload_id = required_parameter(call.query, "uploadId")
    _protection(service, call, service.objects.parts.require(call.key, upload_id))
    _check_unconditional(call)
    call.trace.note_session(upload_id, call.key.name)
    claims = _claimed_parts(await read_all(call.chunks(), MAX_JSON_BYTES, _malformed_document()))
    await call.trace.end_body()
    stored = await service.commit(service.objects.parts.complete, call.key, upload_id, claims)
    call.trace.note_object(stored)
    tree: Tree = (
        ("Location", f"{call.origin}{call.request.raw_path.partition('?')[0]}"),
        ("Bucket", call.bucket),
        ("Key", call.key.name),
        ("ETag", etag_of(stored)),
    )
    response = xml_response("CompleteMultipartUploadResult", tree, OF_UPLOADS)
    response.headers.update(written_headers(stored))
    return response


async def abort_upload(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Forget an upload and its parts."""
    upload_id = required_parameter(call.query, "uploadId")
    await service.commit(service.objects.parts.abort, call.key, upload_id)
    return web.Response(status=204)


def _protection(
    service: StorageService, call: StorageCall, upload: MultipartUpload
) -> Protection | None:
    """How the parts are encrypted; raises StorageError 400 for another key than it began with."""
    what = "requested multipart upload"
    return service.objects.protections.find(upload.properties, call.customer_key, what)


def _part_number(call: StorageCall) -> int:
    part_number = parse_number(call.query, "partNumber")
    if part_number is None or not 1 <= part_number <= MAX_PARTS:
        raise invalid(f"Part number must be an integer between 1 and {MAX_PARTS}, inclusive.")
    return part_number


def _check_unconditional(call: StorageCall) -> None:
    about_etags = {"If-Match", "If-None-Match"} & call.request.headers.keys()
    if call.preconditions != NO_PRECONDITIONS or about_etags:
        raise invalid("Multipart uploads take no preconditions.")


def _upload_tree(upload: MultipartUpload, spell: Spell) -> Tree:
    return (
        ("Key", spell(upload.name)),
        ("UploadId", upload.id),
        ("StorageClass", "STANDARD"),
        ("Initiated", timestamp(upload.created_s)),
    )


def _part_tree(part: UploadPart) -> Tree:
    return (
        ("PartNumber", part.number),
        ("LastModified", timestamp(part.updated_s)),
        ("ETag", f'"{part.etag}"'),
        ("Size", part.size_bytes),
    )


class _Refused(Exception):
    """An element or text that has no place in the document."""


class _Parts:
    """Collects `CompleteMultipartUpload/Part/{PartNumber,ETag}`, in order; passes over the rest."""

    def __init__(self) -> None:
        self.found: list[dict[str, str]] = []
        self._path: list[str] = []

    def start(self, name: str, _attributes: object) -> None:
        self._path.append(name.rpartition(_SEPARATOR)[2])
        if self._path[0] != _ROOT:
            raise _Refused
        if self._path == [_ROOT, "Part"]:
            if len(self.found) == MAX_PARTS:
                raise _Refused
            self.found.append(dict.fromkeys(_FIELDS, ""))

    def end(self, _name: str) -> None:
        self._path.pop()

    def text(self, text: str) -> None:
        if self._path[1:2] == ["Part"] and self._path[2:] and self._path[-1] in _FIELDS:
            self.found[-1][self._path[-1]] += text


def _claimed_parts(data: bytes) -> list[ClaimedPart]:
    """The parts that the client lists; raises StorageError 400 for any other document."""
    collected = _Parts()
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    parser.buffer_text = True  # or a text of many lines costs their number squared
    parser.StartDoctypeDeclHandler = _refuse
    parser.ProcessingInstructionHandler = _refuse
    parser.StartElementHandler = collected.start
    parser.EndElementHandler = collected.end
    parser.CharacterDataHandler = collected.text
    try:
        parser.Parse(data, True)  # noqa: FBT003
        return [_claimed(fields) for fields in collected.found]
    except (_Refused, expat.ExpatError, ValueError, LookupError):  # two of them: odd encodings
        raise _malformed_document() from None


def _malformed_document() -> StorageError:
    """A refusal with 400: the body is no such document."""
    message = (
        "The XML you provided was not well-formed or did not validate against our published schema."
    )
    return StorageError(400, "MalformedXML", message)


def _refuse(*_declaration: object) -> None:
    raise _Refused


def _claimed(fields: dict[str, str]) -> ClaimedPart:
    number, etag = (fields[name].strip() for name in _FIELDS)
    if not (number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS):
        raise _Refused
    return ClaimedPart(int(number), etag.strip('"'))
