"""Orbax itself saves to a bucket, and is killed before its marker: what seal and verify make of it.

The small sibling, on stored checkpoints, is in tests/client/cli/checkpoint/test_checkpoint_seal.py.
"""

import os
import subprocess
import sys

import pytest
from client.storage.storage_fixtures import running

from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.seal import seal_step
from tpuctl.operations.checkpoints.verify import find_differences
from tpuctl.store import open_store

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

SAVES = """
import os
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint._src.path.atomicity import CommitFileTemporaryPath

async def die(_path):
    os._exit(7)

weights = np.random.default_rng(0).standard_normal((256, 256), np.float32)
with ocp.CheckpointManager("gs://box/run") as manager:
    for step in (100, 200, 300):
        if step == 300:
            CommitFileTemporaryPath.finalize = die
        manager.save(step, args=ocp.args.StandardSave({"w": weights * step}))
        manager.wait_until_finished()
"""


def test_what_orbax_saved_to_a_bucket_is_sealed_and_its_damage_found(tmp_path):
    pytest.importorskip("orbax.checkpoint")
    pytest.importorskip("gcsfs")
    with running(tmp_path / "cloud") as service:
        client = service.client()
        bucket = client.create_bucket("box")
        environment = os.environ | {
            "STORAGE_EMULATOR_HOST": service.url,
            "TENSORSTORE_GCS_HTTP_URL": service.url,
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "JAX_PLATFORMS": "cpu",
        }
        saved = subprocess.run([sys.executable, "-c", SAVES], env=environment, check=False)
        assert saved.returncode == 7

        def look() -> dict[str, foreign_steps.ForeignStep]:
            found = foreign_steps.find_foreign_steps(
                "gs://box/run", lambda url: open_store(url, client=client)
            )
            return {each.view.name: each for each in found}

        assert {name: each.view.state for name, each in look().items()} == {
            "100": "UNSEALED",
            "200": "UNSEALED",
            "300": "PARTIAL",
        }
        for name in ("100", "200"):
            assert look()[name].is_settled
            seal_step(look()[name], now_s=0.0)
            assert find_differences(look()[name]) == []
        for blob in bucket.list_blobs(prefix="run/200/default/"):
            whole = blob.download_as_bytes()
            blob.upload_from_string(bytes([whole[0] ^ 1]) + whole[1:])
            assert find_differences(look()["200"])[0].startswith(
                f"{blob.name.removeprefix('run/')}: "
            )
            blob.upload_from_string(whole)
            assert find_differences(look()["200"]) == []
