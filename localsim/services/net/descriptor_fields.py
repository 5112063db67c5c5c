"""Adds fields to the descriptors of messages that no installed package has."""

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

_SCALARS = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "string": FieldDescriptorProto.TYPE_STRING,
}


def add_field(message: DescriptorProto, number: int, name: str, kind: str, package: str) -> None:
    """Add a field to a message.

    `kind` is a scalar type, a full name, or after a dot a name of the package; behind it `*` is for
    repeated and `?` for a scalar that is sent even when it is zero.
    """
    bare = kind.rstrip("*?")
    field = message.field.add(name=name, number=number)
    field.label = (
        FieldDescriptorProto.LABEL_REPEATED
        if kind.endswith("*")
        else FieldDescriptorProto.LABEL_OPTIONAL
    )
    if bare in _SCALARS:
        field.type = _SCALARS[bare]
    else:  # a message or an enum: the pool finds out which
        field.type_name = f".{package}{bare}" if bare.startswith(".") else f".{bare}"
    if kind.endswith("?"):  # in proto3 that is a choice of one
        field.oneof_index = len(message.oneof_decl)
        field.proto3_optional = True
        message.oneof_decl.add(name=f"_{name}")
