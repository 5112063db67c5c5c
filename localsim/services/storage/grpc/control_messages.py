"""The messages of google.storage.control.v2 that are used here.

They are not among this project's packages, so they are written down: the numbers are those of
storage_control.proto of googleapis. They are in a pool of their own, beside the classes that a
client in the same process may have loaded.
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2

from localsim.services.tpu.proto_messages import Messages

PACKAGE = "google.storage.control.v2"
_IF = "if_metageneration_match:int64?=3 if_metageneration_not_match:int64?=4"
_MESSAGES = {
    "PendingRenameInfo": "operation=1",
    "Folder": (
        "name=1 metageneration:int64=3 create_time:time=4 update_time:time=5"
        " pending_rename_info:PendingRenameInfo=7"
    ),
    "GetFolderRequest": f"name=6 {_IF} request_id=5",
    "CreateFolderRequest": "parent=1 folder:Folder=2 folder_id=3 recursive:bool=4 request_id=5",
    "DeleteFolderRequest": f"name=6 {_IF} request_id=5",
    "ListFoldersRequest": (
        "parent=1 page_size:int32=2 page_token=3 prefix=4 delimiter=8 lexicographic_start=6"
        " lexicographic_end=7 request_id=9"
    ),
    "ListFoldersResponse": "folders:Folder*=1 next_page_token=2",
    "RenameFolderRequest": (
        "name=7 destination_folder_id=8 if_metageneration_match:int64?=4"
        " if_metageneration_not_match:int64?=5 request_id=6"
    ),
    "DeleteFolderRecursiveRequest": (
        "name=1 if_metageneration_match:int64?=2 if_metageneration_not_match:int64?=3 request_id=4"
    ),
    "CommonLongRunningOperationMetadata": (
        "create_time:time=1 end_time:time=2 update_time:time=3 type=4 requested_cancellation:bool=5"
        " progress_percent:int32=6"
    ),
    "RenameFolderMetadata": (
        "common_metadata:CommonLongRunningOperationMetadata=1 source_folder_id=2"
        " destination_folder_id=3"
    ),
    "DeleteFolderRecursiveMetadata": (
        "common_metadata:CommonLongRunningOperationMetadata=1 folder_id=2"
    ),
    "CustomPlacementConfig": "data_locations*=1",
    "HierarchicalNamespace": "enabled:bool=1",
    "StorageLayout": (
        "name=1 location=2 location_type=3 custom_placement_config:CustomPlacementConfig=4"
        " hierarchical_namespace:HierarchicalNamespace=5"
    ),
    "GetStorageLayoutRequest": "name=1 prefix=2 request_id=3",
    "ManagedFolder": "name=1 metageneration:int64=3 create_time:time=4 update_time:time=5",
    "GetManagedFolderRequest": f"name=6 {_IF} request_id=5",
    "CreateManagedFolderRequest": (
        "parent=1 managed_folder:ManagedFolder=2 managed_folder_id=3 request_id=4"
    ),
    "DeleteManagedFolderRequest": f"name=7 {_IF} allow_non_empty:bool=5 request_id=6",
    "ListManagedFoldersRequest": "parent=1 page_size:int32=2 page_token=3 prefix=4 request_id=5",
    "ListManagedFoldersResponse": "managed_folders:ManagedFolder*=1 next_page_token=2",
}
"""The fields of each message: `name:type=number`; `?` is one with presence, `*` a repeated one."""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
}


@cache
def control_messages() -> Messages:
    """The message classes by name."""
    file = descriptor_pb2.FileDescriptorProto(
        name="localsim/storage_control.proto",
        package=PACKAGE,
        syntax="proto3",
        dependency=[timestamp_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split():
            _add_field(message, field)
    pool = descriptor_pool.DescriptorPool()
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    pool.Add(times)
    pool.Add(file)
    return Messages(PACKAGE, pool)


def _add_field(message: Any, text: str) -> None:
    description, _, number = text.partition("=")
    name, _, kind = description.rstrip("?*").partition(":")
    is_repeated = description.endswith("*")
    label = _Field.LABEL_REPEATED if is_repeated else _Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=int(number), label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        own = f".{PACKAGE}.{kind}"
        field.type_name = ".google.protobuf.Timestamp" if kind == "time" else own
    if description.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
