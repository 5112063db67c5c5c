"""An HTTP request as a request message: path, query and JSON body, by google.api.http's rules."""

import re
from collections.abc import Iterable
from functools import reduce
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from localsim.services.net.wire_errors import FieldViolation, MalformedRequestError
from localsim.services.rest import discovery
from localsim.services.rest.json_messages import fill_message

SYSTEM_PARAMETERS = frozenset({*discovery.SYSTEM_PARAMETERS, "trace"})
"""What every Google API takes beside its own fields; names that begin with `$` as well."""


def request_message(
    kind: Any,
    path: tuple[str, str] | None,
    query: Iterable[tuple[str, str]],
    body: tuple[str, Any],
) -> Any:
    """A message of `kind`; path and body are pairs of the field they fill (`*`: all) and its value.

    Where the path does not name a resource it is None.

    Raises MalformedRequestError when something fits no field.
    """
    message = kind()
    field, content = body
    try:
        violations = list(fill_message(message, _bound(kind.DESCRIPTOR, query)))
        if field == "*":
            violations += fill_message(message, content)
        elif field:
            getattr(message, field).SetInParent()
            violations += fill_message(getattr(message, field), content, field)
    except RecursionError:
        violations = [FieldViolation("Invalid JSON payload received. Message too deep.")]
    if violations:
        raise MalformedRequestError(violations)
    if path is None:
        return message
    # The path names the resource, whatever the body says.
    *parents, name = path[0].split(".")
    setattr(reduce(getattr, parents, message), name, path[1])
    return message


def _bound(descriptor: Descriptor, query: Iterable[tuple[str, str]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in query:
        if key not in SYSTEM_PARAMETERS and not key.startswith("$"):
            _put(document, key, _query_value(descriptor, key, value))
    return document


def _put(document: dict[str, Any], key: str, value: Any) -> None:
    *parents, name = key.split(".")
    for parent in parents:
        document = document.setdefault(parent, {})
    if isinstance(value, list):
        document.setdefault(name, []).extend(value)
    else:
        document[name] = value


def _query_value(descriptor: Descriptor, key: str, value: str) -> Any:
    field = _field(descriptor, key)
    if field.message_type is not None and field.message_type.name == "FieldMask":
        return ",".join(_camel(path) for path in value.split(","))
    is_flag = field.type == FieldDescriptor.TYPE_BOOL
    given = {"true": True, "false": False}.get(value.lower(), value) if is_flag else value
    return [given] if field.is_repeated else given


def _field(descriptor: Descriptor | None, key: str) -> FieldDescriptor:
    field = None
    for part in key.split("."):
        fields = descriptor.fields if descriptor is not None else ()
        field = next((field for field in fields if part in (field.name, field.json_name)), None)
        if field is None:
            break
        descriptor = field.message_type
    if field is None or not _is_bindable(field):
        sentence = f'Unknown name "{key}": Cannot bind query parameter.'
        raise MalformedRequestError([FieldViolation(f"Invalid JSON payload received. {sentence}")])
    return field


def _is_bindable(field: FieldDescriptor) -> bool:
    """Scalars, repeated ones too, and messages that are a string in JSON."""
    kind = field.message_type
    return kind is None or kind.name in ("FieldMask", "Timestamp", "Duration")


def _camel(path: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), path)
