"""tpu-info beside a JAX program that holds the chips of its worker: held_chips.py."""

import subprocess

import jax

array = jax.device_put(jax.numpy.ones((1024, 1024)), jax.devices()[0]).block_until_ready()
subprocess.run(["tpu-info"], check=True)
