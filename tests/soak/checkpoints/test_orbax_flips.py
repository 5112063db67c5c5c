"""160 flipped bits in what Orbax saved: Orbax restores wrong numbers in silence, verify finds all.

The small sibling, on stored checkpoints, is in
tests/unit/operations/checkpoints/test_checkpoint_seals.py.
"""

import random
import time
from pathlib import Path

import numpy as np
import pytest
from unit.operations.checkpoints.stored_checkpoints import flipped

from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.seal import seal_step
from tpuctl.operations.checkpoints.verify import find_differences
from tpuctl.store import open_store

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900), pytest.mark.filterwarnings("default")]

FLIPS = 40
LAYOUTS = {
    "OCDBT, zarr 2, zstd": {"use_ocdbt": True},
    "OCDBT, zarr 3, zstd": {"use_ocdbt": True, "use_zarr3": True},
    "OCDBT, zarr 2, raw": {"use_ocdbt": True, "use_compression": False},
    "zarr 2, zstd": {"use_ocdbt": False},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_flipped_bit_is_found_that_orbax_restores(layout, tmp_path, capsys):
    ocp = pytest.importorskip("orbax.checkpoint")
    checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**LAYOUTS[layout]))
    random_floats = np.random.default_rng(0).standard_normal((256, 256), np.float32)
    tree = {"w": random_floats, "zeros": np.zeros(4096, np.float32), "step": 7}
    step = tmp_path / "run" / "100"
    checkpointer.save(step, tree)

    def look() -> foreign_steps.ForeignStep:
        (found,) = foreign_steps.find_foreign_steps(str(tmp_path / "run"), open_store)
        return found

    def restored() -> str:
        """What Orbax makes of it: `same`, `wrong`, or the error's name."""
        try:
            back = checkpointer.restore(step)
        except Exception as error:  # noqa: BLE001 (whatever it raises, it noticed)
            return type(error).__name__
        return "same" if all(np.array_equal(back[key], tree[key]) for key in tree) else "wrong"

    seal_step(look(), now_s=time.time())
    assert (find_differences(look()), restored()) == ([], "same")
    fates, missed = [], 0
    choose = random.Random(layout)  # noqa: S311 (no secret)
    files = data_files(step)
    for _ in range(FLIPS):
        (file,) = choose.choices(files, [each.stat().st_size for each in files])
        flip = flipped(file, choose.randrange(8 * file.stat().st_size))
        next(flip)
        missed += not find_differences(look())
        fates.append(restored())
        next(flip)
    assert (find_differences(look()), restored()) == ([], "same")
    with capsys.disabled():
        print(f"\n{layout}: {FLIPS - missed} of {FLIPS} found by verify;", end=" ")
        print(f"Orbax: { ({each: fates.count(each) for each in sorted(set(fates))}) }")
    assert missed == 0
    assert fates.count("wrong") > FLIPS / 2, "the flips do not hit what Orbax restores"


def data_files(step: Path) -> list[Path]:
    """The files with arrays in them: not those that say what is where."""
    files = sorted(path for path in step.rglob("*") if path.is_file())
    small = {"manifest.ocdbt", "commit_success.txt", ".zarray", "zarr.json"}
    return [
        path
        for path in files
        if path.name not in small
        and not path.name.startswith("_")
        and path.parent.name != "array_metadatas"
    ]


def test_orbax_goes_on_in_a_directory_with_seals(tmp_path):
    ocp = pytest.importorskip("orbax.checkpoint")
    root = tmp_path / "run"

    def manager():
        return ocp.CheckpointManager(root, options=ocp.CheckpointManagerOptions(max_to_keep=2))

    def save(*steps: int) -> list[int]:
        with manager() as open_manager:
            for step in steps:
                open_manager.save(step, args=ocp.args.StandardSave({"w": np.full(8, step)}))
            open_manager.wait_until_finished()
            return list(open_manager.all_steps())

    def sealed() -> dict[str, str]:
        for step in foreign_steps.find_foreign_steps(str(root), open_store):
            seal_step(step, now_s=time.time())
        return {
            each.view.name: each.view.state
            for each in foreign_steps.find_foreign_steps(str(root), open_store)
        }

    assert save(100, 200) == [100, 200]
    assert sealed() == {"100": "COMPLETE", "200": "COMPLETE"}
    assert save(300) == [200, 300]
    assert sealed() == {"200": "COMPLETE", "300": "COMPLETE"}
    with manager() as open_manager:
        assert open_manager.restore(300)["w"].tolist() == [300] * 8
        open_manager.delete(300)
    assert save(300) == [200, 300]
    states = {
        each.view.name: each.view
        for each in foreign_steps.find_foreign_steps(str(root), open_store)
    }
    assert states["300"].reason == "it was saved again after it was sealed"
    assert sealed() == {"200": "COMPLETE", "300": "COMPLETE"}
