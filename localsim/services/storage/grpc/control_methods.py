"""google.storage.control.v2.StorageControl: folders, managed folders and the layout of buckets."""

from collections.abc import Mapping
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty

from localsim.rules.objects.bucket_settings.namespaces import has_folders
from localsim.rules.objects.bucket_settings.placement import location_of_settings, location_type
from localsim.rules.objects.buckets.bucket_operations import BucketOperation
from localsim.rules.objects.folders.folder_changes import FolderChange, folder_change
from localsim.rules.objects.folders.folder_records import (
    MAX_FOLDER_PAGE,
    FolderPage,
    FolderQuery,
    FolderRecord,
)
from localsim.rules.objects.storage_model import invalid
from localsim.services.storage.grpc.control_messages import control_messages
from localsim.services.storage.grpc.grpc_calls import (
    RpcMethod,
    bucket_name,
    conditions,
    full_bucket_name,
    moment,
    page_size,
    split_name,
)
from localsim.services.storage.resources.operation_resources import MESSAGES
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.json_requests import page_start, page_token

_LAYOUT = "/storageLayout"


async def _create_folder(service: StorageService, request: Any) -> Any:
    bucket = bucket_name(request.parent)
    name = request.folder_id
    create = service.objects.folders.create
    return _folder(await service.commit(create, bucket, name, recursive=request.recursive))


async def _get_folder(service: StorageService, request: Any) -> Any:
    bucket, name = split_name(request.name, "folders")
    return _folder(service.objects.folders.get(bucket, name, conditions(request)))


async def _list_folders(service: StorageService, request: Any) -> Any:
    if request.delimiter not in ("", "/"):
        raise invalid(f"Invalid value for delimiter: {request.delimiter!r}")
    query = FolderQuery(
        prefix=request.prefix,
        start=max(request.lexicographic_start, _token_start(request)),
        end=request.lexicographic_end,
        limit=page_size(request.page_size, MAX_FOLDER_PAGE),
        is_one_level=bool(request.delimiter),
    )
    page = service.objects.folders.list(bucket_name(request.parent), query)
    response = control_messages()["ListFoldersResponse"]
    return response(folders=map(_folder, page.folders), next_page_token=_next_token(page))


async def _delete_folder(service: StorageService, request: Any) -> Any:
    bucket, name = split_name(request.name, "folders")
    await service.commit(service.objects.folders.delete, bucket, name, conditions(request))
    return Empty()


async def _delete_folder_recursive(service: StorageService, request: Any) -> Any:
    bucket, name = split_name(request.name, "folders")
    objects = service.objects
    delete = objects.folders.delete_recursive
    operation = await service.commit(delete, bucket, name, conditions(request), objects.delete)
    return operation_message(operation)


async def _rename_folder(service: StorageService, request: Any) -> Any:
    bucket, name = split_name(request.name, "folders")
    rename, target = service.objects.folders.rename, request.destination_folder_id
    operation = await service.commit(rename, bucket, name, target, conditions(request))
    return operation_message(operation)


async def _get_storage_layout(service: StorageService, request: Any) -> Any:
    if not request.name.endswith(_LAYOUT):
        raise invalid(f"The name '{request.name}' is not valid.")
    bucket = service.buckets.get(bucket_name(request.name.removesuffix(_LAYOUT)))
    layout = control_messages()["StorageLayout"](
        name=request.name,
        location=location_of_settings(bucket.properties),
        location_type=location_type(bucket.properties),
    )
    if has_folders(bucket.properties):
        layout.hierarchical_namespace.enabled = True
    placement = bucket.properties.get("customPlacementConfig") or {}
    layout.custom_placement_config.data_locations.extend(placement.get("dataLocations") or ())
    return layout


async def _create_managed_folder(service: StorageService, request: Any) -> Any:
    bucket, name = bucket_name(request.parent), request.managed_folder_id
    create = service.objects.managed_folders.create
    return _managed_folder(await service.commit(create, bucket, name))


async def _get_managed_folder(service: StorageService, request: Any) -> Any:
    bucket, name = split_name(request.name, "managedFolders")
    get = service.objects.managed_folders.get
    return _managed_folder(get(bucket, name, conditions(request)))


async def _list_managed_folders(service: StorageService, request: Any) -> Any:
    page = service.objects.managed_folders.list(
        bucket_name(request.parent),
        prefix=request.prefix,
        start=_token_start(request),
        limit=page_size(request.page_size, MAX_FOLDER_PAGE),
    )
    return control_messages()["ListManagedFoldersResponse"](
        managed_folders=map(_managed_folder, page.folders), next_page_token=_next_token(page)
    )


async def _delete_managed_folder(service: StorageService, request: Any) -> Any:
    bucket, name = split_name(request.name, "managedFolders")
    await service.commit(
        service.objects.managed_folders.delete,
        bucket,
        name,
        conditions(request),
        allow_non_empty=request.allow_non_empty,
    )
    return Empty()


async def _get_operation(service: StorageService, request: Any) -> Any:
    bucket, operation_id = split_name(request.name, "operations")
    service.buckets.get(bucket)
    return operation_message(service.objects.operations.get(bucket, operation_id))


async def _cancel_operation(service: StorageService, request: Any) -> Any:
    await _get_operation(service, request)
    return Empty()


async def _list_operations(service: StorageService, request: Any) -> Any:
    bucket = bucket_name(request.name)
    service.buckets.get(bucket)
    operations, ended_with = service.objects.operations.list(
        bucket,
        after=page_start({"pageToken": request.page_token})[1],
        limit=page_size(request.page_size, MAX_FOLDER_PAGE),
    )
    return operations_pb2.ListOperationsResponse(
        operations=map(operation_message, operations),
        next_page_token=page_token("", ended_with) if ended_with else "",
    )


_METHODS = {
    "CreateFolder": _create_folder,
    "GetFolder": _get_folder,
    "ListFolders": _list_folders,
    "DeleteFolder": _delete_folder,
    "DeleteFolderRecursive": _delete_folder_recursive,
    "RenameFolder": _rename_folder,
    "GetStorageLayout": _get_storage_layout,
    "CreateManagedFolder": _create_managed_folder,
    "GetManagedFolder": _get_managed_folder,
    "ListManagedFolders": _list_managed_folders,
    "DeleteManagedFolder": _delete_managed_folder,
}


def control_methods() -> Mapping[str, RpcMethod]:
    """The methods of StorageControl by name."""
    messages = control_messages()
    return {
        name: RpcMethod(messages[f"{name}Request"], answer) for name, answer in _METHODS.items()
    }


def operation_methods() -> Mapping[str, RpcMethod]:
    """The methods of google.longrunning.Operations for the operations of buckets."""
    return {
        "GetOperation": RpcMethod(operations_pb2.GetOperationRequest, _get_operation),
        "ListOperations": RpcMethod(operations_pb2.ListOperationsRequest, _list_operations),
        "CancelOperation": RpcMethod(operations_pb2.CancelOperationRequest, _cancel_operation),
    }


def operation_message(operation: BucketOperation) -> operations_pb2.Operation:
    """An operation, which is done."""
    name = f"{full_bucket_name(operation.bucket)}/operations/{operation.id}"
    change = folder_change(operation)
    if change is None:  # the control API has no message for the others
        return operations_pb2.Operation(name=name, done=True, response=_packed(Empty()))
    result = Empty() if change.result is None else _folder(change.result)
    metadata = _packed(_metadata(operation, change))
    return operations_pb2.Operation(
        name=name, done=True, metadata=metadata, response=_packed(result)
    )


def _metadata(operation: BucketOperation, change: FolderChange) -> Any:
    message = control_messages()[MESSAGES[operation.kind]]()
    common = message.common_metadata
    common.type, common.progress_percent = operation.kind, 100
    common.create_time.MergeFromString(moment(operation.began_s).SerializeToString())
    for end in (common.end_time, common.update_time):
        end.MergeFromString(moment(operation.ended_s).SerializeToString())
    if change.result is not None:
        message.source_folder_id = change.source
        message.destination_folder_id = change.result.name
    else:
        message.folder_id = change.source
    return message


def _packed(message: Any) -> AnyMessage:
    url = f"type.googleapis.com/{message.DESCRIPTOR.full_name}"
    return AnyMessage(type_url=url, value=message.SerializeToString())


def _folder(folder: FolderRecord) -> Any:
    return _message(folder, "Folder", "folders")


def _managed_folder(folder: FolderRecord) -> Any:
    return _message(folder, "ManagedFolder", "managedFolders")


def _message(folder: FolderRecord, kind: str, collection: str) -> Any:
    message = control_messages()[kind](
        name=f"{full_bucket_name(folder.bucket)}/{collection}/{folder.name}",
        metageneration=folder.metageneration,
    )
    # Of another pool than the timestamps of this process: by their bytes.
    message.create_time.MergeFromString(moment(folder.created_s).SerializeToString())
    message.update_time.MergeFromString(moment(folder.updated_s).SerializeToString())
    return message


def _token_start(request: Any) -> str:
    return page_start({"pageToken": request.page_token})[0]


def _next_token(page: FolderPage) -> str:
    return "" if page.next_start is None else page_token(page.next_start)
