"""The part of Cloud Logging that programs write entries with and read them again.

What is refused and in which bounds: the reference of entries.write and entries.list, and "Quotas
and limits" of Cloud Logging.
"""

import asyncio
import base64
import binascii
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp

from localsim.rules.model.cloud_errors import CloudError, Code, unimplemented
from localsim.rules.model.filters import FilterFields, Matches, matcher
from localsim.rules.project.log_store import EntryKey, StoredEntry
from localsim.services.other_apis.message_calls import MessageMethod
from localsim.services.other_apis.other_api_calls import (
    LOGGING,
    ProjectContext,
    foreign_project_error,
)

if TYPE_CHECKING:
    from types import ModuleType

MOST_ENTRY_BYTES = 256 * 1024
MOST_LISTED = 1000
LISTED = 50
"""Entries of a page that names no size."""
ORDERS = {"": False, "timestamp asc": False, "timestamp desc": True}
"""The value of orderBy -> whether the newest come first."""
_LOG_NAME = re.compile(r"projects/([^/]+)/logs/([A-Za-z0-9_.%-]{1,511})")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


async def _write(project: ProjectContext, request: Any) -> Any:
    entries = [_completed(project, request, entry) for entry in request.entries]
    if not request.dry_run:
        project.logs.add([_stored(entry) for entry in entries])
    return _messages().WRITTEN()


async def _list(project: ProjectContext, request: Any) -> Any:
    for name in request.resource_names:
        _check_project(project, name)
    if not request.resource_names:
        raise _invalid("At least one resource name must be specified.")
    if request.order_by not in ORDERS:
        raise _invalid(f"order_by '{request.order_by[:128]}' is none of timestamp asc and desc.")
    if request.page_size < 0:
        raise _invalid("page_size must not be negative.")
    chosen = matcher(request.filter, FIELDS)
    after = _decoded(request.page_token) if request.page_token else None
    size = min(request.page_size or LISTED, MOST_LISTED)
    newest_first = ORDERS[request.order_by]
    found, token = await _page(project, chosen, after, size, newest_first=newest_first)
    return _messages().LISTED(entries=found, next_page_token=token)


async def _page(
    project: ProjectContext,
    chosen: Matches,
    after: EntryKey | None,
    size: int,
    *,
    newest_first: bool,
) -> tuple[list[Any], str]:
    """So many entries behind a key, and the token of the next page, empty where there is none."""
    kind = _messages().ENTRY
    found: list[Any] = []
    while part := project.logs.part(after, newest_first=newest_first):
        for stored in part:
            entry = kind.FromString(stored.body)
            if chosen(_Fields(entry, stored.key)):
                if len(found) == size:
                    return found, _encoded(after)
                found.append(entry)
                after = stored.key
        after = part[-1].key
        await asyncio.sleep(0)  # the simulator has others to answer
    return found, ""


def _completed(project: ProjectContext, request: Any, given: Any) -> Any:
    """An entry with what the request says for all of them; raises CloudError."""
    entry = type(given)()
    entry.CopyFrom(given)
    now = Timestamp()
    now.FromNanoseconds(int(project.now() * 1e9))
    entry.log_name = given.log_name or request.log_name
    if not entry.HasField("resource"):
        entry.resource.CopyFrom(request.resource)
    for label, value in request.labels.items():
        if label not in given.labels:
            entry.labels[label] = value
    if not entry.HasField("timestamp"):
        entry.timestamp.CopyFrom(now)
    entry.receive_timestamp.CopyFrom(now)
    entry.insert_id = entry.insert_id or secrets.token_hex(8)
    _check(project, entry)
    return entry


def _check(project: ProjectContext, entry: Any) -> None:
    name = _LOG_NAME.fullmatch(entry.log_name)
    if name is None:
        raise _invalid(f"Invalid log name '{entry.log_name[:128]}': projects/PROJECT/logs/LOG.")
    _check_project(project, f"projects/{name[1]}")
    if not entry.resource.type:
        raise _invalid("A monitored resource must be specified for each log entry.")
    if entry.HasField("proto_payload"):
        raise unimplemented("protoPayload of a log entry")
    if entry.ByteSize() > MOST_ENTRY_BYTES:
        raise _invalid(f"Log entry with size {entry.ByteSize()} exceeds {MOST_ENTRY_BYTES} bytes.")


def _check_project(project: ProjectContext, name: str) -> None:
    kind, _, rest = name.partition("/")
    if kind != "projects" or "/" in rest:
        raise unimplemented(f"The resource name '{name[:128]}'")
    if rest not in (project.id, str(project.number)):
        raise foreign_project_error(LOGGING, rest)


def _stored(entry: Any) -> StoredEntry:
    key = EntryKey(_comparable(entry.timestamp), entry.insert_id, entry.log_name)
    return StoredEntry(key, entry.SerializeToString())


class _Fields(Mapping[str, str]):
    """The fields of an entry by the names that filters have; what is not there is empty."""

    def __init__(self, entry: Any, key: EntryKey) -> None:
        self._entry = entry
        self._key = key

    def __getitem__(self, name: str) -> str:
        if name in _TEXTS:
            return _TEXTS[name](self._entry, self._key)
        prefix = next(each for each in _PREFIXES if name.startswith(each))
        return _PREFIXES[prefix](self._entry, name.removeprefix(prefix))

    def __iter__(self) -> Iterator[str]:
        return iter(_TEXTS)

    def __len__(self) -> int:
        return len(_TEXTS)


_TEXTS: Mapping[str, Callable[[Any, EntryKey], str]] = {
    "insertId": lambda _, key: key.insert_id,
    "logName": lambda _, key: key.log,
    "resource.type": lambda entry, _: str(entry.resource.type),
    "severity": lambda entry, _: _severity_text(entry.severity),
    "textPayload": lambda entry, _: str(entry.text_payload),
    "timestamp": lambda _, key: key.timestamp,
    "trace": lambda entry, _: str(entry.trace),
}
_PREFIXES: Mapping[str, Callable[[Any, str], str]] = {
    "jsonPayload.": lambda entry, path: _inside(entry.json_payload, path.split(".")),
    "labels.": lambda entry, label: str(entry.labels.get(label, "")),
    "resource.labels.": lambda entry, label: str(entry.resource.labels.get(label, "")),
}


def _inside(struct: Any, parts: list[str]) -> str:
    """The text of what lies in a Struct below those names, a number as JSON has it."""
    *parents, name = parts
    for parent in parents:
        if parent not in struct.fields:
            return ""
        struct = struct.fields[parent].struct_value
    if name not in struct.fields:
        return ""
    value = struct.fields[name]
    match value.WhichOneof("kind"):
        case "string_value":
            return str(value.string_value)
        case "bool_value":
            return json.dumps(value.bool_value)
        case "number_value":
            number = value.number_value
            return json.dumps(int(number) if number.is_integer() else number)
    return ""


def _severity_text(number: int) -> str:
    return f"{number:03d}"


def _read_severity(value: str) -> str:
    from google.logging.type.log_severity_pb2 import LogSeverity

    if value.isdecimal():
        return _severity_text(int(value))
    try:
        return _severity_text(LogSeverity.Value(value.upper()))
    except ValueError:
        raise _invalid(f"Invalid filter: '{value[:128]}' is not a severity.") from None


def _read_timestamp(value: str) -> str:
    found = Timestamp()
    try:
        found.FromJsonString(f"{value}T00:00:00Z" if _DATE.fullmatch(value) else value)
    except ValueError:
        raise _invalid(f"Invalid filter: '{value[:128]}' is not a time of RFC 3339.") from None
    return _comparable(found)


def _comparable(moment: Timestamp) -> str:
    second = datetime.fromtimestamp(moment.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{moment.nanos:09d}Z"


def _encoded(key: EntryKey | None) -> str:
    text = json.dumps([key.timestamp, key.insert_id, key.log] if key else [])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decoded(token: str) -> EntryKey:
    try:
        timestamp, insert_id, log = json.loads(base64.urlsafe_b64decode(token))
    except (binascii.Error, ValueError, TypeError):
        raise _invalid("page_token is not one that entries.list has returned.") from None
    return EntryKey(str(timestamp), str(insert_id), str(log))


def _invalid(sentence: str) -> CloudError:
    return CloudError(Code.INVALID_ARGUMENT, sentence)


def _messages() -> "ModuleType":
    """The messages, which most simulators never need."""
    from localsim.services.other_apis import logging_messages

    return logging_messages


FIELDS = FilterFields(
    _TEXTS,
    prefixes=tuple(_PREFIXES),
    readings={"severity": _read_severity, "timestamp": _read_timestamp},
)
_SERVICE = "google.logging.v2.LoggingServiceV2"
METHODS = (
    MessageMethod(
        service=LOGGING,
        name="entries.write",
        http="POST /v2/entries:write",
        grpc=f"{_SERVICE}/WriteLogEntries",
        permission="logging.logEntries.create",
        request=lambda: _messages().WRITE,
        answer=_write,
    ),
    MessageMethod(
        service=LOGGING,
        name="entries.list",
        http="POST /v2/entries:list",
        grpc=f"{_SERVICE}/ListLogEntries",
        permission="logging.logEntries.list",
        request=lambda: _messages().LIST,
        answer=_list,
    ),
)
