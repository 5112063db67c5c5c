"""TensorBoard's event files, written without TensorFlow.

A file is a sequence of records, each the length of its data (8 bytes), the masked CRC-32C of the
length, the data, and their masked CRC-32C, all little-endian
(https://www.tensorflow.org/tutorials/load_data/tfrecord). The data of a record is an `Event`:
wall_time = 1 (double), step = 2 (int64), file_version = 3 (string), summary = 5; a `Summary`
repeats value = 1 with tag = 1 (string) and simple_value = 2 (float)
(tensorboard/compat/proto/event.proto and summary.proto).
"""

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import google_crc32c

FILE_VERSION = b"brain.Event:2"
MASK_DELTA = 0xA282EAD8
DOUBLE, VARINT, BYTES, FLOAT = 1, 0, 2, 5
"""The wire types of Protocol Buffers."""
LARGEST_FLOAT = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


class ScalarEvent(NamedTuple):
    """The scalars of one moment by tag."""

    wall_time_s: float
    step: int
    scalars: Mapping[str, float]


def event_file(events: Iterable[ScalarEvent], began_s: float) -> bytes:
    """The bytes of an event file; `began_s` is the wall time of its first record, the version."""
    version = _double(1, began_s) + _bytes(3, FILE_VERSION)
    return b"".join([_record(version), *(_record(_event(each)) for each in events)])


def _event(event: ScalarEvent) -> bytes:
    values = b"".join(_bytes(1, value) for value in _values(event.scalars))
    return _double(1, event.wall_time_s) + _integer(2, event.step) + _bytes(5, values)


def _values(scalars: Mapping[str, float]) -> Iterator[bytes]:
    """The values of a summary; what is too large for a float of 32 bits is infinite there."""
    for tag, value in sorted(scalars.items()):
        single = math.copysign(math.inf, value) if abs(value) > LARGEST_FLOAT else value
        yield _bytes(1, tag.encode(errors="replace")) + _key(2, FLOAT) + struct.pack("<f", single)


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_checksum(length) + data + _masked_checksum(data)


def _masked_checksum(data: bytes) -> bytes:
    checksum = google_crc32c.value(data)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + MASK_DELTA) & 0xFFFFFFFF)


def _double(field: int, value: float) -> bytes:
    return _key(field, DOUBLE) + struct.pack("<d", value)


def _integer(field: int, value: int) -> bytes:
    return _key(field, VARINT) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _bytes(field: int, value: bytes) -> bytes:
    return _key(field, BYTES) + _varint(len(value)) + value


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
