"""The CRC32C of two pieces joined, from the CRC32C of each: no byte is read again.

A checksum is a polynomial over GF(2) modulo P. Appending n bytes multiplies it by x^(8n) mod P,
which repeated squaring finds in log2(n) steps (Mark Adler, zlib's crc32_combine; RFC 3720 for P).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

_P = 0x82F63B78
"""Castagnoli's polynomial, its lowest power in the highest bit, as all values here."""
_ONE = 1 << 31


def combine_crc32c(pieces: Iterable[tuple[int, int]]) -> int:
    """The checksum of pieces joined in order; each is its checksum and its size in bytes."""
    value = 0
    for crc32c, size_bytes in pieces:
        value = _product(_shift(size_bytes), value) ^ crc32c
    return value


@cache
def _shift(size_bytes: int) -> int:
    """x^(8 * size_bytes) mod P."""
    shift, square = _ONE, _ONE >> 8
    while size_bytes:
        if size_bytes & 1:
            shift = _product(shift, square)
        square = _product(square, square)
        size_bytes >>= 1
    return shift


def _product(a: int, b: int) -> int:
    """a * b mod P."""
    product = 0
    for power in range(31, -1, -1):
        if a >> power & 1:
            product ^= b
        b = b >> 1 ^ (_P if b & 1 else 0)
    return product
