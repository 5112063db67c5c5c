"""Ray runs a JAX program on every host of the slice that it finds by itself: ray_slice.py."""

import ray
from ray.util.tpu import run_on_slice


@ray.remote
def add_up() -> tuple[int, int, float]:
    import jax
    import jax.numpy as jnp
    from jax.experimental import multihost_utils

    jax.distributed.initialize()
    numbers = multihost_utils.process_allgather(jnp.float32(jax.process_index() + 1))
    return jax.process_index(), jax.device_count(), float(numbers.sum())


ray.init(log_to_driver=False)
labels = ray.nodes()[0]["Labels"]
topology, pod_type = labels["ray.io/tpu-topology"], labels["ray.io/tpu-pod-type"]
generation = pod_type.partition("-")[0]
found = ray.get(run_on_slice(add_up, topology=topology, accelerator_version=generation))
print(f"{pod_type} {topology}, TPU {ray.cluster_resources()['TPU']:.0f}: {sorted(found)}")
