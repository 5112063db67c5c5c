"""The checksum that a worker computes without any library, against Google's own."""

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.agent.data import crc32c

LARGE = bytes(range(256)) * 5000


@given(st.binary(max_size=3000), st.integers(0, 2**32 - 1))
def test_it_goes_on_from_any_checksum(data, before):
    assert crc32c.extend_folded(before, data) == google_crc32c.extend(before, data)


@pytest.mark.parametrize("size_bytes", [0, 1, 1 << 20, (1 << 20) + 1, len(LARGE)])
def test_large_pieces_are_folded_right(size_bytes):
    assert crc32c.extend_folded(0, LARGE[:size_bytes]) == google_crc32c.value(LARGE[:size_bytes])


def test_every_fold_is_what_its_power_leaves():
    for power, terms in crc32c.FOLDS:
        assert power_of_x(power) == sum(1 << term for term in terms)


def power_of_x(power):
    value = 1
    for bit in f"{power:b}":
        value = reduced(crc32c.product(value, value) << int(bit))
    return value


def reduced(value):
    while value.bit_length() > 32:
        value ^= crc32c.POLYNOMIAL << (value.bit_length() - 33)
    return value


def test_it_is_spelled_as_cloud_storage_does():
    assert crc32c.encode(google_crc32c.value(b"hello")) == "mnG7TA=="
