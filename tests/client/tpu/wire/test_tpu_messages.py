"""The recipe for Google's messages without their clients still fits the installed package."""

import subprocess
import sys

import pytest

from localsim.services.tpu import proto_messages


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_client_is_imported_and_a_later_import_shares_the_classes():
    code = """
import sys
from localsim.services.tpu.proto_messages import tpu_v2
before = [name for name in sys.modules if name.startswith(("google.auth", "google.cloud.tpu_v2"))]
import google.cloud.tpu_v2
print(*before, google.cloud.tpu_v2.Node is tpu_v2.Node)
"""
    loaded = "google.cloud.tpu_v2.types.cloud_tpu google.cloud.tpu_v2alpha1.types.cloud_tpu"
    assert python(code) == f"{loaded} True"


def test_what_has_moved_is_imported_plainly():
    with pytest.raises(ModuleNotFoundError, match=r"google\.cloud\.tpu_v2\.types\.moved"):
        proto_messages.load_types("google.cloud.tpu_v2", "moved")
