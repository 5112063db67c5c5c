"""CRC-32C as Cloud Storage spells it: four bytes big-endian, in base64."""

from __future__ import annotations

import base64
import binascii

import google_crc32c


def crc32c(data: bytes) -> str:
    """The checksum of bytes, in base64."""
    return encode_crc32c(google_crc32c.value(data))


def encode_crc32c(value: int) -> str:
    """A checksum as Cloud Storage spells it."""
    return base64.b64encode(value.to_bytes(4, "big")).decode("ascii")


def decode_crc32c(text: str | None) -> int | None:
    """A checksum that Cloud Storage spelled; None when it said none."""
    return None if text is None else int.from_bytes(binascii.a2b_base64(text), "big")
