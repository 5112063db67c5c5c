"""Orbax saves and restores an array that all workers hold together: orbax_steps.py gs://BUCKET/RUN."""

import sys

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding, PartitionSpec

jax.distributed.initialize()
mesh = jax.make_mesh((jax.device_count(),), ("data",))
sharding = NamedSharding(mesh, PartitionSpec("data"))
values = np.arange(jax.device_count() * 65_536, dtype=np.float32).reshape(jax.device_count(), -1)


def state(step: int) -> dict:
    shards = jax.make_array_from_callback(values.shape, sharding, lambda at: values[at] * step)
    return {"weights": shards, "step": step}


options = ocp.CheckpointManagerOptions(max_to_keep=2)
with ocp.CheckpointManager(sys.argv[1], options=options) as manager:
    for step in (1, 2, 3):
        manager.save(step, args=ocp.args.StandardSave(state(step)))
    manager.wait_until_finished()
with ocp.CheckpointManager(sys.argv[1], options=options) as manager:
    kept, latest = sorted(manager.all_steps()), manager.latest_step()
    found = manager.restore(latest, args=ocp.args.StandardRestore(state(0)))
for shard in found["weights"].addressable_shards:
    np.testing.assert_array_equal(shard.data, values[shard.index] * 3)
print(f"process {jax.process_index()} of {jax.process_count()}: kept {kept}, restored {latest}")
