"""docs/architecture.md names rooms and modules that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PATH = re.compile(r"`((?!tpuctl/records|tpuctl/staging)(?:tpuctl|localsim|tests)/[\w/.-]*)`")
"""The two exceptions are places in a bucket."""
ROOM = re.compile(r"`((?!tpuctl/|localsim/|tests/)\w+/\w+/?\w*)`")
"""A room without its product, as `jobs/policy`."""


def test_every_path_is_there():
    assert [path for path in PATH.findall(PAGE) if not (ROOT / path).exists()] == []


def test_every_room_is_in_one_of_the_products():
    rooms = set(ROOM.findall(PAGE))
    products = (ROOT / "tpuctl", ROOT / "localsim")
    assert {room for room in rooms if not any((root / room).exists() for root in products)} == set()
