"""`/$discovery/rest`: the API described for programs, from the method table and the messages."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.services.tpu.rest_messages import REST_MESSAGES
from localsim.services.tpu.tpu_methods import Method, rest_methods

PATH = "/$discovery/rest"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"

DEFAULT_VERSION = "v2"
_SCALARS: dict[int, dict[str, Any]] = {
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "format": "byte"},
}
_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "any"}}
_WELL_KNOWN: dict[str, dict[str, Any]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "google-datetime"},
    "google.protobuf.Duration": {"type": "string", "format": "google-duration"},
    "google.protobuf.FieldMask": {"type": "string", "format": "google-fieldmask"},
    "google.protobuf.Any": _OBJECT,
    "google.protobuf.Struct": _OBJECT,
}
_VERBS = {"List": "list", "Get": "get", "Create": "create", "Delete": "delete", "Update": "patch"}


def document(version: str, root: str) -> dict[str, Any]:
    """The discovery document of one version, served under a URL; raises CloudError.

    Without a version it is that of v2: Ray's and SkyPilot's providers ask for none. Which version
    Google then answers with is assumed.
    """
    version = version or DEFAULT_VERSION
    if version not in REST_MESSAGES:
        raise CloudError(Code.NOT_FOUND, f"The API has no version '{version}'.")
    return {**_described(version), "rootUrl": root, "baseUrl": root}


@cache
def _described(version: str) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for method in rest_methods(version):
        described = _method(version, method, schemas)
        *places, name = described["id"].split(".")[1:]
        _place(resources, places)["methods"][name] = described
    _schema(REST_MESSAGES[version]["OperationMetadata"].DESCRIPTOR, schemas)
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": f"tpu:{version}",
        "name": "tpu",
        "version": version,
        "title": "Cloud TPU API",
        "description": "TPU API provides customers with access to Google TPU technology.",
        "protocol": "rest",
        "servicePath": "",
        "batchPath": "batch",
        "auth": {"oauth2": {"scopes": {SCOPE: {"description": "Google Cloud data"}}}},
        "parameters": SYSTEM_PARAMETERS,
        "resources": resources,
        "schemas": dict(sorted(schemas.items())),
    }


def _place(resources: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """`projects.locations.nodes` in the tree of resources, made when it is not there."""
    place: dict[str, Any] = {}
    for name in names:
        place = resources.setdefault(name, {"methods": {}})
        resources = place.setdefault("resources", {}) if name != names[-1] else {}
    return place


def _method(version: str, method: Method, schemas: dict[str, Any]) -> dict[str, Any]:
    verb, template, *body = method.http.split()
    field, pattern = re.findall(r"\{([\w.]+)=([^}]*)\}", template)[0]
    plain = re.sub(r"\{[\w.]+=|\}", "", template)
    place, _, suffix = plain.partition(":")
    places = [part for part in place.split("/") if part != "*"]
    verbs = (shown for word, shown in _VERBS.items() if method.name.startswith(word))
    name = "name" if field == "node.name" else field
    flat = re.sub(r"(\w+)/\*", lambda m: f"{m[1]}/{{{m[1]}Id}}", plain)
    described: dict[str, Any] = {
        "id": ".".join(["tpu", *places, suffix or next(verbs)]),
        "path": f"{version}/{re.sub(r'{[^}]*}', f'{{+{name}}}', template)}",
        "flatPath": f"{version}/{flat}",
        "httpMethod": verb,
        "parameterOrder": [name],
        "parameters": dict(_parameters(method.request.DESCRIPTOR, field, body, pattern)),
        "response": {"$ref": _schema(method.response.DESCRIPTOR, schemas)},
        "scopes": [SCOPE],
    }
    if body:
        described["request"] = {"$ref": _body(method.request.DESCRIPTOR, body[0], field, schemas)}
    return described


def _body(request: Descriptor, field: str, bound: str, schemas: dict[str, Any]) -> str:
    if field == "*":
        return _schema(request, schemas, bound)
    return _schema(request.fields_by_name[field].message_type, schemas)


def _parameters(
    request: Descriptor, path: str, body: list[str], pattern: str
) -> Iterator[tuple[str, Any]]:
    escaped = "^" + pattern.replace("*", "[^/]+") + "$"
    name = "name" if path == "node.name" else path
    yield name, {"type": "string", "location": "path", "required": True, "pattern": escaped}
    if body == ["*"]:
        return
    for field in request.fields:
        if field.name not in (path, *body):
            shown = {**_type(field, {}), "location": "query"}
            if field.is_repeated:
                shown = {**_type_of_one(field, {}), "location": "query", "repeated": True}
            yield field.json_name, shown


def _schema(message: Descriptor, schemas: dict[str, Any], bound: str = "") -> str:
    """The name of a message's schema, added with all that it refers to but the `bound` field."""
    if message.name not in schemas:
        described: dict[str, Any] = {"id": message.name, "type": "object"}
        schemas[message.name] = described
        described["properties"] = {
            field.json_name: _type(field, schemas)
            for field in message.fields
            if field.name != bound
        }
    return str(message.name)


def _type(field: FieldDescriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        value = _type_of_one(kind.fields_by_name["value"], schemas)
        return {"type": "object", "additionalProperties": value}
    if field.is_repeated:
        return {"type": "array", "items": _type_of_one(field, schemas)}
    return _type_of_one(field, schemas)


def _type_of_one(field: FieldDescriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    if field.enum_type is not None:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    if field.message_type is None:
        return dict(_SCALARS[field.type])
    known = _WELL_KNOWN.get(field.message_type.full_name)
    return dict(known) if known else {"$ref": _schema(field.message_type, schemas)}


def _system(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "location": "query", **more}


SYSTEM_PARAMETERS = {
    "$.xgafv": _system("string", enum=["1", "2"]),
    "access_token": _system("string"),
    "alt": _system("string", enum=["json"], default="json"),
    "callback": _system("string"),
    "fields": _system("string"),
    "key": _system("string"),
    "oauth_token": _system("string"),
    "prettyPrint": _system("boolean", default="true"),
    "quotaUser": _system("string"),
    "upload_protocol": _system("string"),
    "uploadType": _system("string"),
}
"""What every method takes beside its own parameters."""
