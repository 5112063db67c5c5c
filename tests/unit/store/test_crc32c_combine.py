"""The checksum of joined pieces, against reading them all."""

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.store.crc32c_combine import combine_crc32c


def test_the_known_value():
    # "123456789" is the check input of every CRC; RFC 3720 gives CRC32C its polynomial.
    pieces = [(google_crc32c.value(text), len(text)) for text in (b"1234", b"", b"56789")]
    assert combine_crc32c(pieces) == 0xE3069283


def test_nothing_joined_is_nothing():
    assert combine_crc32c([]) == 0


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_joining_is_reading_on(pieces):
    joined = combine_crc32c((google_crc32c.value(piece), len(piece)) for piece in pieces)
    assert joined == google_crc32c.value(b"".join(pieces))


def test_large_pieces_need_no_bytes():
    zeros, tail = bytes(2**20), b"tail"
    value = combine_crc32c([(google_crc32c.value(zeros), 2**20), (google_crc32c.value(tail), 4)])
    assert value == google_crc32c.value(zeros + tail)
