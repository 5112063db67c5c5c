"""Nothing but JAX: who am I, what do the devices of all hosts make together. One line of JSON."""

import json
import os
import sys


def main():
    found = dict(os.environ)  # before JAX adds to it
    import jax
    import jax.numpy as jnp
    from jax.experimental import multihost_utils
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    jax.distributed.initialize()
    if "--profiler" in sys.argv:
        jax.profiler.start_server(9999)
    devices = jax.device_count()
    mesh = jax.make_mesh((devices,), ("all",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, PartitionSpec("all"))
    ones = jax.make_array_from_callback((devices,), split, lambda index: jnp.arange(devices)[index])
    total = jax.jit(
        jax.shard_map(
            lambda x: jax.lax.psum(x, "all"),
            mesh=mesh,
            in_specs=PartitionSpec("all"),
            out_specs=PartitionSpec(),
        )
    )(ones)
    gathered = multihost_utils.process_allgather(jnp.int32(jax.process_index()))
    told = {
        "process": jax.process_index(),
        "processes": jax.process_count(),
        "devices": devices,
        "local_devices": jax.local_device_count(),
        "psum": int(total[0]),
        "gathered": [int(each) for each in gathered],
        "environment": found,
    }
    sys.stdout.write(json.dumps(told) + "\n")


main()
