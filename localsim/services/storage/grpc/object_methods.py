"""google.storage.v2.Storage: what clients of today call of it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from google.protobuf.empty_pb2 import Empty

from localsim.rules.objects.encryption.customer_keys import listing_item, without_checksums
from localsim.rules.objects.listing import MAX_PAGE, ListQuery
from localsim.rules.objects.object_copies import ComposeSource, Converted
from localsim.rules.objects.rewrites import RewriteRequest
from localsim.rules.objects.storage_model import (
    NewObject,
    ObjectKey,
    StoredObject,
    check_object_name,
    invalid,
    not_implemented,
)
from localsim.services.storage.grpc.grpc_calls import (
    CallKind,
    RpcMethod,
    bucket_name,
    conditions,
    page_size,
)
from localsim.services.storage.grpc.object_messages import (
    WRITABLE,
    bucket_message,
    bucket_settings,
    new_object,
    object_message,
    set_properties,
    storage_messages,
)
from localsim.services.storage.grpc.read_streams import bidi_read_object, read_object
from localsim.services.storage.grpc.write_streams import bidi_write_object, write_object
from localsim.services.storage.methods.conversions import commit_copy
from localsim.services.storage.methods.single_uploads import with_default_key
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.json_requests import page_start, page_token


def _key(request: Any) -> ObjectKey:
    return ObjectKey(bucket_name(request.bucket), request.object_, request.generation or None)


async def _get_object(service: StorageService, request: Any) -> Any:
    if request.soft_deleted:
        raise not_implemented("soft_deleted")
    stored = service.objects.get(_key(request), conditions(request), reading=True)
    shown = await service.md5s.shown(service.objects, without_checksums(stored))
    return object_message(shown, request.read_mask.paths)


async def _list_objects(service: StorageService, request: Any) -> Any:
    if request.soft_deleted or request.filter:
        raise not_implemented("soft_deleted" if request.soft_deleted else "filter")
    token_start, generation = page_start({"pageToken": request.page_token})
    query = ListQuery(
        prefix=request.prefix,
        delimiter=request.delimiter,
        start=max(request.lexicographic_start, token_start),
        start_generation=generation,
        end=request.lexicographic_end,
        limit=page_size(request.page_size, MAX_PAGE),
        versions=request.versions,
        match_glob=request.match_glob,
        include_trailing_delimiter=request.include_trailing_delimiter,
        folders_as_prefixes=request.include_folders_as_prefixes,
    )
    page = service.objects.list(bucket_name(request.parent), query)
    paths = [path.removeprefix("objects.") for path in request.read_mask.paths]
    token = page.next_start is not None and page_token(page.next_start, page.next_generation)
    return storage_messages()["ListObjectsResponse"](
        objects=[object_message(listing_item(stored), paths) for stored in page.items],
        prefixes=page.prefixes,
        next_page_token=token or "",
    )


async def _delete_object(service: StorageService, request: Any) -> Any:
    await service.commit(service.objects.delete, _key(request), conditions(request))
    return Empty()


async def _update_object(service: StorageService, request: Any) -> Any:
    given = request.object_
    fields = {path.partition(".")[0] for path in request.update_mask.paths}
    if "*" in fields:
        fields = set(WRITABLE)
    if not fields or fields - WRITABLE.keys():
        raise invalid(f"The update mask {sorted(fields)} cannot be applied to an object.")
    change = set_properties(given, sorted(fields))
    keys = [path[9:] for path in request.update_mask.paths if path.startswith("metadata.")]
    if keys:
        change["metadata"] = {key: given.metadata.get(key) for key in keys}
    key = ObjectKey(bucket_name(given.bucket), given.name, given.generation or None)
    patch = service.objects.patch
    if "metadata" in fields and not keys:  # a mask replaces the whole map
        return object_message(
            await service.commit(_replace_metadata, service, key, change, request)
        )
    return object_message(await service.commit(patch, key, change, conditions(request)))


def _replace_metadata(
    service: StorageService, key: ObjectKey, change: dict[str, Any], request: Any
) -> Any:
    before = service.objects.get(key).properties.get("metadata") or {}
    metadata = {**dict.fromkeys(before), **(change.get("metadata") or {})}
    return service.objects.patch(key, {**change, "metadata": metadata}, conditions(request))


async def _compose_object(service: StorageService, request: Any) -> Any:
    target = request.destination
    check_object_name(target.name)
    sources = [
        ComposeSource(
            source.name,
            source.generation or None,
            source.object_preconditions.if_generation_match
            if source.object_preconditions.HasField("if_generation_match")
            else None,
        )
        for source in request.source_objects
    ]
    new = NewObject(
        bucket_name(target.bucket), target.name, set_properties(target), conditions(request)
    )
    deletes = request.delete_source_objects

    def compose(converted: Converted) -> StoredObject:
        return service.objects.compose(new, sources, delete_sources=deletes, converted=converted)

    return object_message(await commit_copy(service, compose))


async def _rewrite_object(service: StorageService, request: Any) -> Any:
    check_object_name(request.destination_name)
    properties = set_properties(request.destination)
    source = ObjectKey(
        bucket_name(request.source_bucket),
        request.source_object,
        request.source_generation or None,
    )
    new = NewObject(
        bucket_name(request.destination_bucket),
        request.destination_name,
        properties,
        conditions(request),
    )
    asked = RewriteRequest(
        source,
        conditions(request, "if_source"),
        new,
        keeps_metadata=not properties,
        call_bytes=request.max_bytes_rewritten_per_call or None,
    )
    rewrite = service.objects.rewrites.rewrite
    done = await commit_copy(service, partial(rewrite, asked, request.rewrite_token or None))
    response = storage_messages()["RewriteResponse"](
        total_bytes_rewritten=done.written_bytes,
        object_size=done.size_bytes,
        done=done.result is not None,
        rewrite_token="" if done.result is not None else done.token,
    )
    if done.result is not None:
        response.resource.CopyFrom(object_message(done.result))
    return response


async def _move_object(service: StorageService, request: Any) -> Any:
    check_object_name(request.destination_object)
    stored = await service.commit(
        service.objects.move,
        ObjectKey(bucket_name(request.bucket), request.source_object),
        request.destination_object,
        conditions(request, "if_source"),
        conditions(request),
    )
    return object_message(stored)


async def _start_resumable_write(service: StorageService, request: Any) -> Any:
    spec = request.write_object_spec
    declared = spec.object_size if spec.HasField("object_size") else None
    new = new_object(spec, request.object_checksums, declared_bytes=declared)
    data_key, new = with_default_key(service, new)
    upload_id = await service.commit(service.objects.uploads.start, new, data_key)
    return storage_messages()["StartResumableWriteResponse"](upload_id=upload_id)


async def _query_write_status(service: StorageService, request: Any) -> Any:
    response = storage_messages()["QueryWriteStatusResponse"]
    uploads = service.objects.uploads
    published = uploads.result(request.upload_id)
    if published is not None:
        return response(resource=object_message(published))
    upload = uploads.open(request.upload_id)
    upload.body.close()
    return response(persisted_size=upload.body.size_bytes)


async def _cancel_resumable_write(service: StorageService, request: Any) -> Any:
    await service.commit(service.objects.uploads.cancel, request.upload_id)
    return storage_messages()["CancelResumableWriteResponse"]()


async def _get_bucket(service: StorageService, request: Any) -> Any:
    bucket = service.buckets.get(bucket_name(request.name), conditions(request), reading=True)
    return bucket_message(bucket, request.read_mask.paths)


async def _list_buckets(service: StorageService, request: Any) -> Any:
    limit = page_size(request.page_size, MAX_PAGE)
    project = request.parent.removeprefix("projects/")
    start = page_start({"pageToken": request.page_token})[0]
    found = service.buckets.list(project, prefix=request.prefix, start=start, limit=limit + 1)
    return storage_messages()["ListBucketsResponse"](
        buckets=[bucket_message(bucket) for bucket in found[:limit]],
        next_page_token=page_token(found[limit].name) if len(found) > limit else "",
    )


async def _create_bucket(service: StorageService, request: Any) -> Any:
    project = (request.bucket.project or request.parent).removeprefix("projects/")
    settings = bucket_settings(request.bucket)
    create = service.buckets.create
    return bucket_message(await service.commit(create, project, request.bucket_id, settings))


async def _delete_bucket(service: StorageService, request: Any) -> Any:
    name = bucket_name(request.name)
    await service.commit(service.buckets.delete, name, conditions(request))
    return Empty()


async def _lock_bucket_retention_policy(service: StorageService, request: Any) -> Any:
    lock, name = service.buckets.lock_retention_policy, bucket_name(request.bucket)
    return bucket_message(await service.commit(lock, name, conditions(request)))


_UNARY = {
    "GetBucket": _get_bucket,
    "ListBuckets": _list_buckets,
    "CreateBucket": _create_bucket,
    "DeleteBucket": _delete_bucket,
    "LockBucketRetentionPolicy": _lock_bucket_retention_policy,
    "GetObject": _get_object,
    "ListObjects": _list_objects,
    "DeleteObject": _delete_object,
    "UpdateObject": _update_object,
    "ComposeObject": _compose_object,
    "RewriteObject": _rewrite_object,
    "MoveObject": _move_object,
    "StartResumableWrite": _start_resumable_write,
    "QueryWriteStatus": _query_write_status,
    "CancelResumableWrite": _cancel_resumable_write,
}
_STREAMS = {
    "ReadObject": (read_object, CallKind.SERVER_STREAM),
    "BidiReadObject": (bidi_read_object, CallKind.BIDI),
    "WriteObject": (write_object, CallKind.CLIENT_STREAM),
    "BidiWriteObject": (bidi_write_object, CallKind.BIDI),
}


def object_methods() -> Mapping[str, RpcMethod]:
    """The methods of Storage by name; raises ImportError where the client has no messages."""
    messages = storage_messages()
    unary = {name: RpcMethod(messages[f"{name}Request"], answer) for name, answer in _UNARY.items()}
    streams = {
        name: RpcMethod(messages[f"{name}Request"], answer, kind)
        for name, (answer, kind) in _STREAMS.items()
    }
    return {**unary, **streams}
