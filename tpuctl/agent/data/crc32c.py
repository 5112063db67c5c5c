"""CRC-32C as Cloud Storage computes it: Google's C module where it is installed, else big integers.

A checksum is a remainder: a message is a polynomial over GF(2), and H * x^k + L leaves the same
remainder as H * (x^k mod P) + L. For some k the factor has few terms, so one fold halves a message
with a handful of shifts and xors of Python's integers, which run at the speed of memory.
Standard library only, Python 3.8.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

POLYNOMIAL = 0x11EDC6F41
FOLDS = (
    (7906509, (0, 12, 15, 19, 29)),
    (3953383, (0, 10, 15, 23, 25)),
    (1974217, (0, 11, 13, 14, 29)),
    (986431, (0, 4, 13, 22, 23, 28, 30)),
    (506636, (0, 5, 12, 17, 22)),
    (247124, (0, 5, 6, 11, 19, 20, 26)),
    (123359, (0, 7, 12, 16, 21, 28, 31)),
    (62530, (0, 4, 9, 17, 18, 21, 28)),
    (31875, (0, 9, 10, 16, 19, 26, 31)),
    (15557, (0, 5, 7, 9, 12, 14, 22, 28, 30)),
    (8308, (0, 4, 6, 10, 14, 22, 23, 24, 27)),
    (3867, (0, 2, 9, 13, 14, 19, 21, 26, 28)),
    (1928, (0, 1, 5, 7, 8, 11, 14, 15, 20, 23, 27)),
    (967, (0, 3, 5, 8, 10, 14, 23, 25, 27, 30, 31)),
    (498, (0, 3, 5, 9, 11, 12, 16, 24, 26, 29, 30)),
    (253, (0, 6, 7, 8, 12, 13, 14, 16, 17, 23, 26, 27, 30)),
    (120, (0, 1, 4, 7, 9, 12, 13, 14, 16, 17, 24, 27, 28)),
    (67, (0, 4, 5, 6, 7, 10, 14, 17, 18, 23, 24, 25, 27, 30, 31)),
)
"""(k, the powers of x in x^k mod P): near each power of two the k whose remainder has fewest."""

FOLD_BYTES = 1024 * 1024
REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def extend_folded(checksum: int, data: bytes) -> int:
    """The checksum of what had `checksum`, followed by data."""
    for start in range(0, len(data), FOLD_BYTES):
        block = data[start : start + FOLD_BYTES]
        state = mirror(checksum ^ 0xFFFFFFFF) << 8 * len(block)
        message = int.from_bytes(block.translate(REVERSED), "big") << 32
        checksum = mirror(remainder(message ^ state)) ^ 0xFFFFFFFF
    return checksum


def remainder(value: int) -> int:
    """The remainder of a polynomial modulo P."""
    for power, terms in FOLDS:
        while value.bit_length() > power + 32:
            high = value >> power
            value ^= high << power
            for term in terms:
                value ^= high << term
    while value.bit_length() > 32:
        value ^= POLYNOMIAL << (value.bit_length() - 33)
    return value


def mirror(value: int) -> int:
    """32 bits in the opposite order: CRC-32C sends the lowest bit of a byte first."""
    return int.from_bytes(value.to_bytes(4, "little").translate(REVERSED), "big")


def combine(first: int, second: int, second_bytes: int) -> int:
    """The checksum of two pieces one after the other, from the checksum of each."""
    moved = mirror(first)
    factor, count = 1 << 8, second_bytes
    while count:  # x^(8 * count) by repeated squaring
        if count & 1:
            moved = remainder(product(moved, factor))
        factor = remainder(product(factor, factor))
        count >>= 1
    return mirror(moved) ^ second


def product(left: int, right: int) -> int:
    """The product of two polynomials, not reduced."""
    total = 0
    for power in range(right.bit_length()):
        if right >> power & 1:
            total ^= left << power
    return total


def encode(checksum: int) -> str:
    """A CRC-32C as Cloud Storage writes it: base64 of four bytes, the highest first."""
    return base64.b64encode(checksum.to_bytes(4, "big")).decode("ascii")


def fastest_extend() -> Callable[[int, bytes], int]:
    """The fastest `extend` of this machine: that of google_crc32c where it is native."""
    try:
        import google_crc32c
    except ImportError:
        return extend_folded
    # Its own fallback looks every byte up in a table: slower than folding.
    is_native = getattr(google_crc32c, "implementation", "python") == "c"
    return google_crc32c.extend if is_native else extend_folded


extend = fastest_extend()
