"""Flax trains on all devices; Orbax's CheckpointManager saves while training goes on."""

import os
import time

import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

STEPS, BATCH = 80, 32


def batch(step: int):
    """The examples of a step, over all devices; every host can make them."""
    numbers = np.random.default_rng(step)
    inputs = numbers.standard_normal((BATCH, 16), dtype=np.float32)
    labels = np.tanh(inputs.sum(axis=1, keepdims=True))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    return [
        jax.make_array_from_callback(each.shape, rows, each.__getitem__)
        for each in (inputs, labels)
    ]


@jax.jit
def train_step(state, inputs, labels):
    """The next state, and the loss before."""
    model, optimizer = nnx.merge(graph, state)
    loss, gradient = nnx.value_and_grad(lambda model: ((model(inputs) - labels) ** 2).mean())(model)
    optimizer.update(model, gradient)
    return nnx.state((model, optimizer)), loss


jax.distributed.initialize()
mesh = jax.make_mesh((jax.device_count(),), ("data",))
rngs = nnx.Rngs(0)
model = nnx.Sequential(nnx.Linear(16, 64, rngs=rngs), nnx.relu, nnx.Linear(64, 1, rngs=rngs))
graph, state = nnx.split((model, nnx.Optimizer(model, optax.adam(0.01), wrt=nnx.Param)))
state = jax.device_put(jax.device_get(state), NamedSharding(mesh, PartitionSpec()))
options = ocp.CheckpointManagerOptions(
    max_to_keep=int(os.environ["TPUCTL_CHECKPOINT_KEEP"]), save_interval_steps=15
)
with ocp.CheckpointManager(os.environ["TPUCTL_CHECKPOINT_DIR"], options=options) as manager:
    first = manager.latest_step() or 0
    if first:
        state = manager.restore(first, args=ocp.args.StandardRestore(state))
        print(f"resumed step={first}", flush=True)
    for step in range(first + 1, STEPS + 1):
        state, loss = train_step(state, *batch(step))
        print(f"step={step} loss={float(loss)!r}", flush=True)
        manager.save(step, args=ocp.args.StandardSave(state))
        time.sleep(0.1)
