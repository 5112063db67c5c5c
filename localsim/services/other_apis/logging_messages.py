"""The messages of google.logging.v2 that are served, by the numbers of their fields.

They are those of googleapis, google/logging/v2; the package that has them is not among this
project's, and a name of their own lets it be loaded in the same process.
"""

import proto
from google.api import monitored_resource_pb2
from google.logging.type import http_request_pb2, log_severity_pb2
from google.protobuf import any_pb2, struct_pb2, timestamp_pb2

__protobuf__ = proto.module(package="localsim.logging.v2")

_RESOURCE = monitored_resource_pb2.MonitoredResource


class LogEntryOperation(proto.Message):
    """What an entry belongs to."""

    id = proto.Field(proto.STRING, number=1)
    producer = proto.Field(proto.STRING, number=2)
    first = proto.Field(proto.BOOL, number=3)
    last = proto.Field(proto.BOOL, number=4)


class LogEntrySourceLocation(proto.Message):
    """The line of a program that wrote an entry."""

    file = proto.Field(proto.STRING, number=1)
    line = proto.Field(proto.INT64, number=2)
    function = proto.Field(proto.STRING, number=3)


class LogEntry(proto.Message):
    """One entry; `payload` is text or a JSON object, and what else there is has no reader here."""

    log_name = proto.Field(proto.STRING, number=12)
    resource = proto.Field(proto.MESSAGE, number=8, message=_RESOURCE)
    proto_payload = proto.Field(proto.MESSAGE, number=2, oneof="payload", message=any_pb2.Any)
    text_payload = proto.Field(proto.STRING, number=3, oneof="payload")
    json_payload = proto.Field(proto.MESSAGE, number=6, oneof="payload", message=struct_pb2.Struct)
    timestamp = proto.Field(proto.MESSAGE, number=9, message=timestamp_pb2.Timestamp)
    receive_timestamp = proto.Field(proto.MESSAGE, number=24, message=timestamp_pb2.Timestamp)
    severity = proto.Field(proto.ENUM, number=10, enum=log_severity_pb2.LogSeverity)
    insert_id = proto.Field(proto.STRING, number=4)
    http_request = proto.Field(proto.MESSAGE, number=7, message=http_request_pb2.HttpRequest)
    labels = proto.MapField(proto.STRING, proto.STRING, number=11)
    operation = proto.Field(proto.MESSAGE, number=15, message=LogEntryOperation)
    trace = proto.Field(proto.STRING, number=22)
    span_id = proto.Field(proto.STRING, number=27)
    trace_sampled = proto.Field(proto.BOOL, number=30)
    source_location = proto.Field(proto.MESSAGE, number=23, message=LogEntrySourceLocation)


class WriteLogEntriesRequest(proto.Message):
    """Entries, and what those have that do not say it themselves."""

    log_name = proto.Field(proto.STRING, number=1)
    resource = proto.Field(proto.MESSAGE, number=2, message=_RESOURCE)
    labels = proto.MapField(proto.STRING, proto.STRING, number=3)
    entries = proto.RepeatedField(proto.MESSAGE, number=4, message=LogEntry)
    partial_success = proto.Field(proto.BOOL, number=5)
    dry_run = proto.Field(proto.BOOL, number=6)


class WriteLogEntriesResponse(proto.Message):
    """Nothing."""


class ListLogEntriesRequest(proto.Message):
    """Whose entries are wanted, which of them and in which order."""

    resource_names = proto.RepeatedField(proto.STRING, number=8)
    filter = proto.Field(proto.STRING, number=2)
    order_by = proto.Field(proto.STRING, number=3)
    page_size = proto.Field(proto.INT32, number=4)
    page_token = proto.Field(proto.STRING, number=5)


class ListLogEntriesResponse(proto.Message):
    """A page of entries."""

    entries = proto.RepeatedField(proto.MESSAGE, number=1, message=LogEntry)
    next_page_token = proto.Field(proto.STRING, number=2)


WRITE, WRITTEN, LIST, LISTED, ENTRY = (
    kind.pb()
    for kind in (
        WriteLogEntriesRequest,
        WriteLogEntriesResponse,
        ListLogEntriesRequest,
        ListLogEntriesResponse,
        LogEntry,
    )
)
"""The classes of protobuf's own."""
