"""Asks libtpu's metric service, without a gRPC library: unary calls over plain HTTP/2. Python 3.8.

A worker may have no gRPC for its system's Python, and importing it takes more memory than an agent.
RFC 9113 (frames), RFC 7541 (the few header fields are literals that are not indexed), and the
protocol of gRPC over HTTP/2. The messages are those of the descriptors in tpu-info 0.14.
"""

from __future__ import annotations

import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

HOST = "127.0.0.1"
PORTS_VARIABLE = "TPU_RUNTIME_METRICS_PORTS"
PORTS = "8431,8432,8433,8434"
"""A program on all chips listens at the first; programs on one chip each, at one port each."""
TIMEOUT_S = 2.0
METHOD = b"/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
WINDOW_BYTES = 1 << 20
LARGEST_FRAME = 1 << 24
FIXED_BYTES = {1: 8, 5: 4}
"""Wire type -> length of its values."""
ORDINAL = b"device_ordinal"
MALFORMED = (ValueError, IndexError, KeyError, TypeError, struct.error)
"""What reading a message that is not valid raises."""


class Reading:
    """One device's value of a metric: a number, or how many observations and their mean."""

    def __init__(self, device: int, value: float, count: int | None = None) -> None:
        self.device = device
        self.value = value
        self.count = count


def ports() -> list[int]:
    """Return the ports at which programs may serve metrics."""
    words = (os.environ.get(PORTS_VARIABLE) or PORTS).split(",")
    return [int(word) for word in words if word.strip().isdigit()]


def read_metrics(port: int, names: Sequence[str]) -> dict[str, list[Reading]] | None:
    """Return the readings of each metric that is served; None when nobody serves the port."""
    try:
        with socket.create_connection((HOST, port), TIMEOUT_S) as connection:
            connection.settimeout(TIMEOUT_S)
            answers = call_all(connection, names)
        return {name: readings(answers[at]) for at, name in enumerate(names) if answers[at]}
    except (OSError, *MALFORMED):
        return None


def call_all(connection: socket.socket, names: Sequence[str]) -> list[bytes]:
    """Return the answer to every name, empty where the server has none; all in one round trip."""
    calls = (call(2 * number + 1, name) for number, name in enumerate(names))
    window = struct.pack(">HI", 4, WINDOW_BYTES)  # SETTINGS_INITIAL_WINDOW_SIZE
    connection.sendall(
        PREFACE
        + frame(SETTINGS, 0, 0, window)
        + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW_BYTES))
        + b"".join(calls)
    )
    answers = [b""] * len(names)
    open_streams = set(range(1, 2 * len(names), 2))
    for kind, flags, stream, body in frames(connection):
        if kind == DATA and stream in open_streams:
            answers[stream // 2] += unpadded(body) if flags & PADDED else body
        if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
            open_streams.discard(stream)
        if kind in (SETTINGS, PING) and not flags & ACK:
            connection.sendall(frame(kind, ACK, 0, body if kind == PING else b""))
        if kind == GOAWAY or not open_streams:
            break
    return [answer[5:] for answer in answers]  # after the flag and the length of the message


def call(stream: int, name: str) -> bytes:
    """Return the frames of one call."""
    text = name.encode()
    message = bytes([10, len(text)]) + text  # MetricRequest.metric_name
    fields = (
        b"\x83\x86"  # :method POST, :scheme http
        + literal(b"\x04", METHOD)  # :path
        + literal(b"\x01", b"localhost")  # :authority
        + literal(b"\x0f\x10", b"application/grpc")  # content-type
        + literal(literal(b"\x00", b"te"), b"trailers")
    )
    body = b"\0" + struct.pack(">I", len(message)) + message
    return frame(HEADERS, END_HEADERS, stream, fields) + frame(DATA, END_STREAM, stream, body)


def literal(name: bytes, value: bytes) -> bytes:
    """Return a header field after its name: a length below 127, and the text."""
    return name + bytes([len(value)]) + value


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    """Return an HTTP/2 frame."""
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def frames(connection: socket.socket) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield kind, flags, stream and body of each frame that comes. Raises OSError, ValueError."""
    with connection.makefile("rb") as stream:
        while True:
            head = stream.read(9)
            if len(head) < 9:
                raise ValueError("the server hung up")
            length = int.from_bytes(head[:3], "big")
            if length > LARGEST_FRAME:
                raise ValueError("the frame is too large")
            kind, flags, number = struct.unpack(">BBI", head[3:])
            yield kind, flags, number & 0x7FFFFFFF, stream.read(length)


def unpadded(body: bytes) -> bytes:
    """Return the data of a padded frame."""
    return body[1 : len(body) - body[0]]


def readings(answer: bytes) -> list[Reading]:
    """Return the readings of a MetricResponse. Raises one of MALFORMED."""
    metric = first(answer, 1, b"")
    return [read_point(point) for number, point in fields_of(metric) if number == 3]


def read_point(point: bytes) -> Reading:
    """Return the reading of a message Metric: a gauge, a counter or a distribution."""
    device = device_of(first(first(point, 1, b""), 2, b""))
    distribution = first(point, 5, None)
    if distribution is not None:
        return Reading(device, number_of(first(distribution, 2, 0.0)), first(distribution, 1, 0))
    number = first(point, 3, None)
    if number is None:
        number = first(point, 4, b"")
    value = first(number, 1, None)
    return Reading(device, number_of(first(number, 2, 0) if value is None else value))


def device_of(attribute: bytes) -> int:
    """Return the device that an AttrValue names: as its number, or among other attributes.

    The `hlo.*` metrics have it as `device_ordinal`, a text or, of an older libtpu, a number. Of a
    transfer no device is told: it counts as device 0.
    """
    listed = first(attribute, 6, None)
    if listed is None:
        number: int = first(attribute, 3, 0)
        return number
    for _, entry in fields_of(listed):
        if first(entry, 1, b"") == ORDINAL:
            told = first(entry, 2, b"")
            return int(first(told, 1, None) or first(told, 3, 0))
    return 0


def number_of(value: Any) -> float:
    """Return a number that may have come as the eight bytes of a double."""
    return float(struct.unpack("<d", value)[0]) if isinstance(value, bytes) else value


def first(message: bytes, wanted: int, otherwise: Any) -> Any:
    """Return the first field of that number."""
    return next((value for number, value in fields_of(message) if number == wanted), otherwise)


def fields_of(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: an int, or bytes. Raises one of MALFORMED."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(message, at)
            yield key >> 3, value
            continue
        length, at = varint(message, at) if kind == 2 else (FIXED_BYTES[kind], at)
        if at + length > len(message):
            raise ValueError("the message is cut")
        yield key >> 3, message[at : at + length]
        at += length


def varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length integer and where the next field begins."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("the number is too long")
