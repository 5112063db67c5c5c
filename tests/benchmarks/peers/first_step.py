"""The shortest training there is: find the other workers, one data-parallel step, its loss."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec


def loss(weights, inputs):
    return jnp.mean((jnp.tanh(inputs @ weights) - 1) ** 2)


def main():
    jax.distributed.initialize()
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, PartitionSpec("batch"))
    shape = (8 * jax.device_count(), 64)
    inputs = jax.make_array_from_callback(
        shape, split, lambda index: jnp.linspace(0, 1, shape[0] * 64).reshape(shape)[index]
    )
    weights = jax.device_put(jnp.full((64, 64), 0.01), NamedSharding(mesh, PartitionSpec()))
    found, slopes = jax.jit(jax.value_and_grad(loss))(weights, inputs)
    weights -= 0.1 * slopes
    weights.block_until_ready()
    print(f"step=1 loss={found:.4f} devices={jax.device_count()}", flush=True)


main()
