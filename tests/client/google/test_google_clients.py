"""Google's unmodified clients, in a program of their own, against `tpuctl local up`."""

import json
import subprocess
import sys
from pathlib import Path

from tpuctl.operations.local import local_cloud

SCRIPT = Path(__file__).with_name("google_clients.py")


def test_create_list_delete_a_node_and_round_trip_an_object(offline):
    line = json.loads(offline("local", "up").out)
    keys = ("tpu_grpc", "storage", "project", "zone", "bucket")
    try:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *(line[key] for key in keys)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        local_cloud.down(offline.home, "local")
    assert done.returncode == 0, done.stderr
