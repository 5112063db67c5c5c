"""The simulated chip: real numbers at BLAS speed, and what they would have cost a TPU.

mesh = Mesh.connect()
for chip in mesh.chips: y = chip.matmul(x, w)
sums = mesh.all_reduce([[gradient] for gradient in gradients])
"""

from localsim.core.chip import Chip, Counters
from localsim.core.mesh import Mesh, MeshError

__all__ = ["Chip", "Counters", "Mesh", "MeshError"]
