"""tpuctl cannot tell a simulated cloud from Google's: it has no words for it."""

from dataclasses import fields
from pathlib import Path

import tpuctl
from tpuctl.config import Context

FORBIDDEN = ("localsim", "emulator", "simulat", "is_local", "endpoint is None")
ALLOWED = (
    *("cli/local/", "operations/local/", "api/control.py"),
    *("cli/rehearse/", "models/rehearsal/", "operations/rehearse/"),
)
"""What is about the local context alone."""
PACKAGE = Path(tpuctl.__file__).parent
FILES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.relative_to(PACKAGE).as_posix().startswith(ALLOWED)
    and "templates" not in path.relative_to(PACKAGE).parts
]


def words_of(path: Path) -> list[str]:
    text = path.read_text("utf-8")
    return [word for word in FORBIDDEN if word in text]


def test_no_file_knows_of_a_simulator():
    found = {path.relative_to(PACKAGE).as_posix(): words_of(path) for path in FILES}
    assert {name: words for name, words in found.items() if words} == {}


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
        "compute_endpoint",
        "monitoring_endpoint",
        "resourcemanager_endpoint",
        "billing_endpoint",
        "iam_endpoint",
        "secretmanager_endpoint",
        "network",
        "subnetwork",
        "internal_ips",
        "service_account",
        "price_factors",
        "max_usd_per_hour",
        "max_usd_per_month",
        "notify",
    ]
