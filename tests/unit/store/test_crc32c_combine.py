"""The checksum of joined pieces, against reading them all: by each of the three that compute it.

The agent's needs the standard library only, the store's is what training programs import, and the
simulator imports neither: one rule, so one test.
"""

from functools import reduce

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.objects.files import checksums
from localsim.rules.objects.storage_model import encode_crc32c
from tpuctl.agent.data import crc32c
from tpuctl.store.crc32c_base64 import decode_crc32c
from tpuctl.store.crc32c_combine import combine_crc32c


def combine_as_agent(pieces):
    return reduce(lambda whole, piece: crc32c.combine(whole, *piece), pieces, 0)


def combine_as_simulator(pieces):
    whole = encode_crc32c(0)
    for value, size_bytes in pieces:
        whole = checksums.combine_crc32c(whole, encode_crc32c(value), size_bytes)
    return decode_crc32c(whole)


IMPLEMENTATIONS = [combine_crc32c, combine_as_agent, combine_as_simulator]


def combined(pieces):
    """What all implementations say of pieces of bytes: one value, or they differ."""
    sums = [(google_crc32c.value(piece), len(piece)) for piece in pieces]
    (value,) = {combine(sums) for combine in IMPLEMENTATIONS}
    return value


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_joining_is_reading_on(pieces):
    assert combined(pieces) == google_crc32c.value(b"".join(pieces))


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**50))
def test_pieces_that_are_too_large_to_read_are_joined_alike(first, second, size_bytes):
    assert len({combine([(first, 1), (second, size_bytes)]) for combine in IMPLEMENTATIONS}) == 1


def test_the_known_value():
    # "123456789" is the check input of every CRC; RFC 3720 gives CRC32C its polynomial.
    assert combined([b"1234", b"", b"56789"]) == 0xE3069283


@pytest.mark.parametrize("pieces", [[], [b"", b""], [bytes(2**20), b"tail"]])
def test_nothing_and_large_pieces(pieces):
    assert combined(pieces) == google_crc32c.value(b"".join(pieces))
