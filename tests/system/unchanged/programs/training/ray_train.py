"""Ray Train fits a line with JAX over all devices of the slice: ray_train.py."""

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.jax import JaxTrainer

STEPS = 30


def fit_line() -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import ray.train
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    values = np.linspace(-1.0, 1.0, 64, dtype=np.float32)
    rows = NamedSharding(mesh, PartitionSpec("data"))
    x = jax.make_array_from_callback(values.shape, rows, lambda at: values[at])

    def loss(slope, x):
        return ((slope * x - 3.0 * x) ** 2).mean()

    step = jax.jit(jax.value_and_grad(loss))
    slope = jnp.float32(0.0)
    for _ in range(STEPS):
        error, change = step(slope, x)
        slope = slope - change
        ray.train.report({"loss": float(error)})
    if ray.train.get_context().get_world_rank() == 0:
        print(f"{jax.process_count()} workers, {jax.device_count()} devices: slope {slope:.3f}")


ray.init()
labels = ray.nodes()[0]["Labels"]
pod_type = labels["ray.io/tpu-pod-type"]
scaling = ScalingConfig(
    use_tpu=True,
    num_workers=len(ray.nodes()),
    topology=labels["ray.io/tpu-topology"],
    accelerator_type=f"TPU-{pod_type.partition('-')[0].upper()}",
    resources_per_worker={"TPU": 4},
)
JaxTrainer(
    fit_line, scaling_config=scaling, run_config=RunConfig(storage_path="/tmp/ray_results")
).fit()
