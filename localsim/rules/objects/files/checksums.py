"""CRC-32C of bytes that are joined, from the checksums of the pieces: nothing is read again."""

import base64
from functools import lru_cache

from localsim.rules.objects.storage_model import encode_crc32c

_POLYNOMIAL = 0x82F63B78
"""Castagnoli, reflected: RFC 3720, B.4."""
_ONE = 1 << 31


def combine_crc32c(first: str, second: str, second_bytes: int) -> str:
    """The checksum of one body followed by another of `second_bytes`, all spelled as in the API.

    The checksum is the remainder of the bytes as a polynomial; bytes that follow multiply it by a
    power of x, as in zlib's crc32_combine.
    """
    shifted = _product(_power_of_x(second_bytes), _decode(first))
    return encode_crc32c(shifted ^ _decode(second))


def _decode(crc32c: str) -> int:
    return int.from_bytes(base64.b64decode(crc32c), "big")


@lru_cache(64)  # parts mostly have one size
def _power_of_x(size_bytes: int) -> int:
    """x^(8 * size_bytes) modulo the CRC's polynomial."""
    power, square = _ONE, _ONE >> 8
    while size_bytes:
        if size_bytes & 1:
            power = _product(power, square)
        square = _product(square, square)
        size_bytes >>= 1
    return power


def _product(first: int, second: int) -> int:
    """Two polynomials multiplied modulo the CRC's, the coefficient of x^0 in the highest bit."""
    result = 0
    while first:
        if first & _ONE:
            result ^= second
        first = (first << 1) & 0xFFFFFFFF
        second = (second >> 1) ^ (_POLYNOMIAL if second & 1 else 0)
    return result
