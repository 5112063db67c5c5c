"""Multiplies in a process of its own: OPERANDS.npz PRODUCTS.npz [any-size | with-amx].

Reads left0, right0, left1, ... and writes their products; says which backend there is and whether
JAX was imported. Any size goes through JAX if that is asked for; `with-amx` is another processor.
"""

import sys

import numpy as np

from localsim.core.chip import backends, jax_matmul, mxu

given, written, *options = sys.argv[1:]
if "with-amx" in options:
    backends.cpu_flags = lambda: frozenset({"amx_bf16"})
operands = np.load(given)
products = {}
for number in range(len(operands) // 2):
    left, right = operands[f"left{number}"], operands[f"right{number}"]
    formats = ("int8", "int8") if left.dtype == np.int8 else ("f32", "f32")
    products[f"product{number}"] = (
        jax_matmul.matmul(left, right)
        if "any-size" in options
        else mxu.matmul(left, right, formats=formats)
    )
products["subnormal"] = mxu.matmul(np.float32([[2**-133]]), np.float32([[2.0]]))
np.savez(written, **products)
sys.stdout.write(f"{backends.backend_name()} {'jax' in sys.modules}\n")
