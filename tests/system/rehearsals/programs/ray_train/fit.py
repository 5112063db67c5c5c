"""Ray Train's JaxTrainer fits a made-up set on all devices; its checkpoints go to the bucket."""

import os
import tempfile
import time
from pathlib import Path

import ray
import ray.train
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.v2.jax import JaxTrainer

STEPS, SAVE_EVERY = 60, 12


def fit() -> None:
    """Runs on every worker; JAX must not be imported before."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("data"))

    @jax.jit
    def train_step(weights, inputs, labels):
        def loss(weights):
            return ((jnp.tanh(inputs @ weights["first"]) @ weights["second"] - labels) ** 2).mean()

        error, change = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda value, slope: value - 0.1 * slope, weights, change), error

    def batch(step: int):
        inputs = np.random.default_rng(step).standard_normal((32, 16), dtype=np.float32)
        for each in (inputs, np.sin(inputs.sum(axis=1, keepdims=True))):
            yield jax.make_array_from_callback(each.shape, rows, each.__getitem__)

    is_first = ray.train.get_context().get_world_rank() == 0
    done, weights = begin()
    for step in range(done + 1, STEPS + 1):
        weights, error = train_step(weights, *batch(step))
        if is_first:
            print(f"step={step} loss={float(error)!r}", flush=True)
        time.sleep(0.1)
        if step % SAVE_EVERY == 0:
            report({"loss": float(error)}, {"step": step, **jax.device_get(weights)}, is_first)


def begin() -> tuple[int, dict]:
    """The step and the weights of the newest checkpoint that was reported, or of the beginning."""
    import numpy as np

    if found := ray.train.get_checkpoint():
        with found.as_directory() as folder, np.load(Path(folder) / "weights.npz") as saved:
            weights = dict(saved)
        step = int(weights.pop("step"))
        print(f"resumed step={step}", flush=True)
        return step, weights
    numbers = np.random.default_rng(0)
    shapes = {"first": (16, 64), "second": (64, 1)}
    return 0, {name: numbers.normal(0, 0.3, of).astype("float32") for name, of in shapes.items()}


def report(metrics: dict, values: dict, is_first: bool) -> None:  # noqa: FBT001
    """Every worker reports; the first one has the checkpoint."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        if is_first:
            np.savez(Path(folder) / "weights.npz", **values)
        ray.train.report(metrics, checkpoint=Checkpoint(folder) if is_first else None)


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
