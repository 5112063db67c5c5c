"""Products of the same two matrices in every way that a JAX program writes them, as JSON lists.

With arguments: in these ways only.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

left, right = (np.asarray(each, np.float32) for each in json.load(sys.stdin))
a, b = jnp.asarray(left), jnp.asarray(right)
stack = jnp.stack([a, 2 * a])
WAYS = {
    "eager": lambda: a @ b,
    "jit": lambda: jax.jit(lambda x, y: x @ y)(a, b),
    "einsum": lambda: jnp.einsum("ij,jk->ik", a, b),
    "vmap": lambda: jax.vmap(lambda x: x @ b)(stack)[0],
    "grad": lambda: jax.grad(lambda x: (x @ b).sum())(a),
    "default by name": lambda: jnp.matmul(a, b, precision="default"),
    "highest": lambda: jnp.matmul(a, b, precision="highest"),
    "highest under jit": lambda: jax.jit(lambda x, y: jnp.dot(x, y, precision="highest"))(a, b),
    "bfloat16": lambda: (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32),
    "elementwise": lambda: a * 1.001,
}
with jax.default_matmul_precision("highest"):
    highest_by_context = a @ b
found = {way: compute() for way, compute in WAYS.items() if way in (sys.argv[1:] or WAYS)}
found["highest by context"] = highest_by_context
assert all(each.dtype == jnp.float32 for each in found.values())
integers = jnp.arange(6).reshape(2, 3)
found["int32"] = (integers @ integers.T).astype(jnp.float32)
sys.stdout.write(json.dumps({way: np.asarray(each).tolist() for way, each in found.items()}))
