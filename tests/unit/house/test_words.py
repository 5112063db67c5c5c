"""tpuctl cannot tell a simulated cloud from Google's: it has no words for it."""

from dataclasses import fields
from pathlib import Path

import pytest

import tpuctl
from tpuctl.config import Context

FORBIDDEN = ("localsim", "emulator", "simulat", "is_local", "endpoint is None")
ALLOWED = {
    "cli/local/group.py",
    "operations/local/__init__.py",
    "operations/local/local.py",
    "operations/local/quickstart.py",
    "operations/rehearse.py",
    "api/control.py",
}
PACKAGE = Path(tpuctl.__file__).parent
FILES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.relative_to(PACKAGE).as_posix() not in ALLOWED
    and "templates" not in path.relative_to(PACKAGE).parts
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_file_knows_of_a_simulator(path):
    text = path.read_text("utf-8")
    assert [word for word in FORBIDDEN if word in text] == []


def test_a_context_is_data_and_nothing_in_it_says_what_kind_of_cloud_it_is():
    assert [field.name for field in fields(Context)] == [
        "name",
        "project",
        "zone",
        "bucket",
        "tpu_endpoint",
        "tpu_rest_endpoint",
        "storage_endpoint",
        "credentials",
        "dialer",
        "serviceusage_endpoint",
    ]
