"""How the steps of Orbax in this folder were made: Orbax 0.12.8, JAX on a CPU.

python make_orbax.py /var/tmp/checkpoints
"""

import os
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint._src.path.atomicity import AtomicRenameTemporaryPath

ROOT = Path(sys.argv[1])
WEIGHTS = np.random.default_rng(0).standard_normal((16, 16), np.float32)
TREE = {
    "params": {"w": jnp.asarray(WEIGHTS), "b": jnp.ones((8,), jnp.bfloat16)},
    "losses": np.array([2.5, np.nan, np.inf], np.float32),
    "step": 7,
}

with ocp.CheckpointManager(ROOT / "orbax") as manager:
    manager.save(100, args=ocp.args.StandardSave(TREE))
    manager.save(200, args=ocp.args.StandardSave(TREE))
    manager.wait_until_finished()

options = ocp.CheckpointManagerOptions(step_prefix="ckpt", step_format_fixed_length=6)
with ocp.CheckpointManager(ROOT / "orbax_items", options=options) as manager:
    manager.save(
        5,
        args=ocp.args.Composite(
            state=ocp.args.StandardSave(TREE), position=ocp.args.JsonSave({"batch": 640})
        ),
    )

for name, use_zarr3 in (("zarr2", False), ("zarr3", True)):
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=use_zarr3)
    ocp.Checkpointer(handler).save(ROOT / "orbax_single" / name, TREE)


async def die(_path: AtomicRenameTemporaryPath) -> None:
    """End as a process that is killed: all is written, nothing is renamed."""
    os._exit(0)


AtomicRenameTemporaryPath.finalize = die
with ocp.CheckpointManager(ROOT / "orbax") as manager:
    manager.save(300, args=ocp.args.StandardSave(TREE))
