"""Google's storage client for Node.js, unmodified, against the service."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from client.storage.storage_fixtures import running
from clouds import MATRIX

FOLDER = Path(__file__).with_name("node")
STORIES = Path(__file__).with_name("bucket_stories.mjs")
NODE = shutil.which("node")
INSTALLED = (FOLDER / "node_modules" / "@google-cloud" / "storage").is_dir()

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(
        not INSTALLED, reason=f"@google-cloud/storage is not installed: npm ci in {FOLDER.name}"
    ),
]


@pytest.mark.parametrize("pointed_by", ["option", pytest.param("environment", marks=MATRIX)])
def test_every_story_ends_well(tmp_path, pointed_by):
    with running(tmp_path) as service:
        by_option = pointed_by == "option"
        done = subprocess.run(
            [NODE, str(STORIES), *([service.url] if by_option else [])],
            cwd=FOLDER,
            env=os.environ | ({} if by_option else {"STORAGE_EMULATOR_HOST": service.url}),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    told = dict(json.loads(line) for line in done.stdout.splitlines())
    assert len(told) == 11
    assert {name: result for name, result in told.items() if result != "ok"} == {}
