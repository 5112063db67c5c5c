"""An HTTP request as a request message: path, query and JSON body, by google.api.http's rules."""

import re
from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from localsim.services.net.wire_errors import FieldViolation, MalformedRequestError
from localsim.services.rest.json_messages import fill_message

SYSTEM_PARAMETERS = frozenset(
    {
        "access_token",
        "alt",
        "callback",
        "fields",
        "key",
        "oauth_token",
        "prettyPrint",
        "quotaUser",
        "trace",
        "uploadType",
        "upload_protocol",
    }
)
"""What every Google API takes beside its own fields; names that begin with `$` as well."""


def request_message(
    kind: Any, path: tuple[str, str], query: Iterable[tuple[str, str]], body: tuple[str, Any]
) -> Any:
    """A message of `kind`; path and body are pairs of the field they fill (`*`: all) and its value.

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
    return _with_path(message, *path)


def _with_path(message: Any, path: str, value: str) -> Any:
    """The path names the resource, whatever the body says."""
    *parents, name = path.split(".")
    holder = message
    for parent in parents:
        holder = getattr(holder, parent)
    setattr(holder, name, value)
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
    found: Any = value
    if field.type == FieldDescriptor.TYPE_BOOL:
        found = {"true": True, "false": False}.get(value.lower(), value)
    return [found] if field.is_repeated else found


def _field(descriptor: Descriptor | None, key: str) -> FieldDescriptor:
    found = None
    for part in key.split("."):
        fields = descriptor.fields if descriptor is not None else ()
        found = next((each for each in fields if part in (each.name, each.json_name)), None)
        if found is None:
            break
        descriptor = found.message_type
    if found is None or not _is_bindable(found):
        sentence = f'Unknown name "{key}": Cannot bind query parameter.'
        raise MalformedRequestError([FieldViolation(f"Invalid JSON payload received. {sentence}")])
    return found


def _is_bindable(field: FieldDescriptor) -> bool:
    """Scalars, repeated ones too, and messages that are a string in JSON."""
    kind = field.message_type
    return kind is None or kind.name in ("FieldMask", "Timestamp", "Duration")


def _camel(path: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), path)
