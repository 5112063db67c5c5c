"""JSON into messages by the standard mapping, with refusals in the words of Google's front end."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from localsim.services.net.wire_errors import FieldViolation, MalformedRequestError

_SAID = "Invalid JSON payload received."
_MOST_SHOWN = 200


def load_json(text: bytes) -> Any:
    """A JSON document without NaN and infinities; an empty text is an empty object.

    Raises ValueError and RecursionError.
    """
    return json.loads(text or b"{}", parse_constant=_no_constant)


def parse_json(text: bytes) -> Any:
    """A JSON document; an empty text is an empty object. Raises MalformedRequestError."""
    try:
        return load_json(text)
    except (ValueError, RecursionError):
        raise MalformedRequestError([FieldViolation(f"{_SAID} Unexpected token.")]) from None


def fill_message(message: Any, document: Any, path: str = "") -> Iterator[FieldViolation]:
    """Fill a message with a JSON object; return the violations.

    `path` is the message's place in its request.
    """
    if not isinstance(document, Mapping):
        yield _not_a_message(document, path)
        return
    for key, value in document.items():
        field = _field(message, key)
        if field is None:
            where = f" at '{path}'" if path else ""
            sentence = f'{_SAID} Unknown name "{key}"{where}: Cannot find field.'
            yield FieldViolation(sentence, path)
        elif value is not None:
            yield from _fill_field(message, field, value, _below(path, field))


def _fill_field(
    message: Any, field: FieldDescriptor, value: Any, path: str
) -> Iterator[FieldViolation]:
    holder = field.containing_oneof and message.WhichOneof(field.containing_oneof.name)
    if holder and holder != field.name:
        group = field.containing_oneof.name
        sentence = f"oneof field '{group}' is already set. Cannot set '{field.json_name}'"
        yield FieldViolation(f"Invalid value at '{path}' (oneof), {sentence}", path)
    elif not _is_plain_message(field):
        yield from _fill_leaf(message, field, value, path)
    elif not field.is_repeated:
        inner = getattr(message, field.name)
        inner.SetInParent()
        yield from fill_message(inner, value, path)
    elif isinstance(value, list | Mapping):
        # One object is a list of one: ImplicitMessageList in the tests of protobuf's converter,
        # protostream_objectwriter_test.cc, by which Google's front end reads JSON.
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            yield from fill_message(getattr(message, field.name).add(), item, f"{path}[{index}]")
    else:
        yield from _fill_leaf(message, field, value, path)


def _fill_leaf(
    message: Any, field: FieldDescriptor, value: Any, path: str
) -> Iterator[FieldViolation]:
    """Fill a scalar, enum, map or well-known type from its JSON form."""
    try:
        json_format.ParseDict({field.json_name: value}, message)
    except (json_format.ParseError, ValueError, TypeError, OverflowError, AttributeError):
        shown = json.dumps(value)[:_MOST_SHOWN]
        yield FieldViolation(f"Invalid value at '{path}' ({_type_name(field)}), {shown}", path)


def _field(message: Any, key: str) -> FieldDescriptor | None:
    """By its JSON name or its own; the installed classes write `type` as `type_`."""
    for field in message.DESCRIPTOR.fields:
        if key in (field.json_name, field.name.rstrip("_")):
            return field
    return None


def _is_plain_message(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and not (
        kind.GetOptions().map_entry or kind.full_name.startswith("google.protobuf.")
    )


def _below(path: str, field: FieldDescriptor) -> str:
    name = field.name.rstrip("_")
    return f"{path}.{name}" if path else name


def _type_name(field: FieldDescriptor) -> str:
    kind = field.message_type or field.enum_type
    if kind is not None:
        return f"type.googleapis.com/{kind.full_name}"
    return str(FieldDescriptorProto.Type.Name(field.type))


def _not_a_message(document: Any, path: str) -> FieldViolation:
    if not path:
        return FieldViolation(f'{_SAID} Unknown name "": Root element must be a message.')
    if isinstance(document, list):
        sentence = f'Unknown name "{path}": Proto field is not repeating, cannot start list.'
        return FieldViolation(f"{_SAID} {sentence}", path)
    shown = json.dumps(document)[:_MOST_SHOWN]
    return FieldViolation(f"Invalid value at '{path}' (message), {shown}", path)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
