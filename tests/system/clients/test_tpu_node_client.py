"""Google's client for Node.js: create, list, get, delete."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from client.tpu.tpu_service import ZONE, serving

from localsim.clock import Clock
from localsim.rules.scenario.scenario import Scenario

FOLDER = Path(__file__).with_name("node")
NODE = shutil.which("node")
INSTALLED = (FOLDER / "node_modules" / "@google-cloud" / "tpu").is_dir()
READY = 2
"""It shows the result of an operation with the numbers of its enums."""
PROMPT = Scenario(acceptance_delay_s=0, provisioning_delay_s=0, deletion_delay_s=0)

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(
        not INSTALLED, reason=f"@google-cloud/tpu is not installed: npm ci in {FOLDER.name}"
    ),
]


def test_create_list_get_delete_with_both_versions(tmp_path):
    with serving(tmp_path / "state.sqlite", clock=Clock(), scenario=PROMPT) as service:
        done = subprocess.run(
            [NODE, str(FOLDER / "nodes.mjs"), str(service.grpc_port), ZONE],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    told = dict(json.loads(line).values() for line in done.stdout.splitlines())
    assert told == {
        f"{version} {step}": value
        for version, node in (("v2", "n2"), ("v2alpha1", "n2a"))
        for step, value in {
            "create": [f"{ZONE}/nodes/{node}", READY, 4],
            "list": [f"{ZONE}/nodes/{node}"],
            "get": ["v5litepod-16", "4x4"],
            "gone": 5,
        }.items()
    }
