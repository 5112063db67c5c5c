"""An HTTP request as a request message: path, query and JSON body, by google.api.http's rules."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from localsim.cloud.errors import CloudError, Code

SYSTEM_PARAMETERS = frozenset(
    {"alt", "access_token", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser"}
)
"""What every Google API takes beside its own fields; names that begin with `$` as well."""

REST_ONLY = (
    ("node", "schedulingConfig", "provisioningModel"),
    ("queuedResource", "provisioningModel"),
)
"""What gcloud sends for its defaults and Google's Python messages do not have."""

DEFAULT_MODELS = frozenset({"STANDARD", "SPOT"})


def request_message(
    kind: Any, path: tuple[str, str], query: Iterable[tuple[str, str]], body: tuple[str, Any]
) -> Any:
    """A message of `kind`; path and body are pairs of the field they fill (`*`: all) and its value.

    Raises CloudError when something fits no field.
    """
    document: dict[str, Any] = {}
    field, content = body
    if field == "*":
        document.update(_object(content))
    elif field:
        document[field] = _without_rest_only(_camel(field), content)
    for key, value in query:
        if key not in SYSTEM_PARAMETERS and not key.startswith("$"):
            _put(document, key, _query_value(kind.DESCRIPTOR, key, value))
    _put(document, *path)
    try:
        return json_format.ParseDict(document, kind())
    except (json_format.ParseError, RecursionError) as error:
        raise _bad_payload(str(error)) from None


def parsed_json(text: bytes) -> Any:
    """A JSON body; nothing reads as an empty object. Raises CloudError."""
    try:
        return json.loads(text or b"{}")
    except (ValueError, RecursionError) as error:
        raise _bad_payload(str(error)) from None


def _object(content: Any) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise _bad_payload("Root element must be a message.")
    return content


def _without_rest_only(root: str, content: Any) -> Any:
    for first, *parts, name in REST_ONLY:
        holder = content
        for part in parts:
            holder = holder.get(part) if isinstance(holder, dict) else None
        if first == root and isinstance(holder, dict) and holder.get(name) in DEFAULT_MODELS:
            del holder[name]
    return content


def _put(document: dict[str, Any], key: str, value: Any) -> None:
    *parents, name = key.split(".")
    for parent in parents:
        document = document.setdefault(parent, {})
        if not isinstance(document, dict):
            raise _bad_payload(f'Unknown name "{key}".')
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
    if found is None:
        raise _bad_payload(f'Unknown name "{key}": Cannot bind query parameter.')
    return found


def _camel(path: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), path)


def _bad_payload(reason: str) -> CloudError:
    return CloudError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {reason}")
