"""Ray Train's JaxTrainer fits a made-up set on all devices and keeps checkpoints in the bucket."""

import os
import tempfile
import time
from pathlib import Path

import ray
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.v2.jax import JaxTrainer

STEPS, SAVE_EVERY = 60, 12


def fit() -> None:
    """Runs on every worker; each goes on from the newest checkpoint that was reported."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import ray.train
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("data"))

    @jax.jit
    def train_step(weights, inputs, labels):
        def loss(weights):
            hidden = jnp.tanh(inputs @ weights["first"])
            return ((hidden @ weights["second"] - labels) ** 2).mean()

        error, change = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda value, slope: value - 0.1 * slope, weights, change), error

    def batch(step: int):
        inputs = np.random.default_rng(step).standard_normal((32, 16), dtype=np.float32)
        for each in (inputs, np.sin(inputs.sum(axis=1, keepdims=True))):
            yield jax.make_array_from_callback(each.shape, rows, each.__getitem__)

    rank = ray.train.get_context().get_world_rank()
    numbers = np.random.default_rng(0)
    weights = {
        name: numbers.normal(0, 0.3, shape).astype("float32") for name, shape in SHAPES.items()
    }
    first = 0
    if found := ray.train.get_checkpoint():
        with found.as_directory() as folder, np.load(Path(folder) / "weights.npz") as saved:
            first = int(saved["step"])
            weights = {name: saved[name] for name in SHAPES}
        if rank == 0:
            print(f"resumed step={first}", flush=True)
    for step in range(first + 1, STEPS + 1):
        weights, error = train_step(weights, *batch(step))
        if rank == 0:
            print(f"step={step} loss={float(error)!r}", flush=True)
        time.sleep(0.1)
        if step % SAVE_EVERY:
            continue
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                np.savez(Path(folder) / "weights.npz", step=step, **jax.device_get(weights))
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"loss": float(error)}, checkpoint=checkpoint)


SHAPES = {"first": (16, 64), "second": (64, 1)}
ray.init()
labels = ray.nodes()[0]["Labels"]
generation = labels["ray.io/tpu-pod-type"].partition("-")[0].upper()
scaling = ScalingConfig(
    use_tpu=True,
    num_workers=len(ray.nodes()),
    topology=labels["ray.io/tpu-topology"],
    accelerator_type=f"TPU-{generation}",
    resources_per_worker={"TPU": 4},
)
keep = CheckpointConfig(num_to_keep=int(os.environ["TPUCTL_CHECKPOINT_KEEP"]))
folder = os.environ["TPUCTL_CHECKPOINT_DIR"]
run = RunConfig(name="fit", storage_path=folder, checkpoint_config=keep)
JaxTrainer(fit, scaling_config=scaling, run_config=run).fit()
