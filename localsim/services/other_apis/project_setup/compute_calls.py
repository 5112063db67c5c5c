"""What the methods of Compute Engine share: links, finished operations, refusals."""

import secrets
from collections.abc import Mapping
from typing import Any

from localsim.services.other_apis.other_api_calls import ApiCall, HttpRefusal
from localsim.services.storage.resources.object_resources import timestamp

VERSION = "/compute/{version}"
PROJECT = f"{VERSION}/projects/{{project}}"
REGION = f"{PROJECT}/regions/{{region}}"
DEFAULT_NETWORK = "default"


def link(call: ApiCall, path: str) -> str:
    """The address of something below the project, as the client writes addresses."""
    version = call.names["version"]
    return f"{call.origin}/compute/{version}/projects/{call.project.id}{path}"


def invalid_field(field: str) -> HttpRefusal:
    """The refusal of a field's value."""
    return HttpRefusal(400, "invalid", f"Invalid value for field 'resource.{field}'")


def absent_resource(call: ApiCall, path: str) -> HttpRefusal:
    """The refusal of a resource of the project that is not there; the path begins with its kind."""
    name = f"projects/{call.project.id}/{path}"
    return HttpRefusal(404, "notFound", f"The resource '{name}' was not found")


def existing_resource(call: ApiCall, path: str) -> HttpRefusal:
    """The refusal to make a resource that is there; the path is as in `absent_resource`."""
    name = f"projects/{call.project.id}/{path}"
    return HttpRefusal(409, "alreadyExists", f"The resource '{name}' already exists")


def stored_operation(call: ApiCall, place: str) -> Mapping[str, object]:
    """The operation that the request names; `place` is as in `finished_operation`."""
    name = call.names["operation"]
    operation = call.project.metadata.operation(name)
    if operation is None:
        raise absent_resource(call, f"{place.removeprefix('/')}/operations/{name}")
    return operation


def store_operation(
    call: ApiCall, kind: str, target: str, place: str = "/global"
) -> dict[str, Any]:
    """A `finished_operation` that can be asked for."""
    operation = finished_operation(call, kind, target, place)
    call.project.metadata.write_operation(operation)
    return operation


def finished_operation(
    call: ApiCall, kind: str, target: str, place: str = "/global"
) -> dict[str, Any]:
    """An operation that is done: changes of the project take no time here.

    `target` is the path of what was changed; `place` is `/global` or that of a region.
    """
    moment = timestamp(call.project.now())
    epoch_ms = int(call.project.now() * 1000)
    words = [secrets.token_hex(size) for size in (7, 4, 4)]
    name = f"operation-{epoch_ms}-{'-'.join(words)}"
    region = {} if place == "/global" else {"region": link(call, place)}
    return {
        "kind": "compute#operation",
        "id": str(secrets.randbits(62)),
        "name": name,
        "operationType": kind,
        "targetLink": link(call, target),
        "targetId": str(call.project.number),
        "status": "DONE",
        "progress": 100,
        "insertTime": moment,
        "startTime": moment,
        "endTime": moment,
        "selfLink": link(call, f"{place}/operations/{name}"),
        **region,
    }
