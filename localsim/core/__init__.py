"""The simulated chip: real numbers at BLAS speed, and what they would have cost a TPU.

with Mesh.connect() as mesh:
    products = [chip.matmul(x, w) for chip in mesh.chips]
    sums = mesh.all_reduce(products)
"""

from localsim.core.chip.buffers import Buffer
from localsim.core.chip.chip import Chip
from localsim.core.chip.counters import Counters
from localsim.core.chip.memory import MemoryFullError
from localsim.core.grid import Grid
from localsim.core.mesh import Mesh, MeshError

__all__ = ["Buffer", "Chip", "Counters", "Grid", "MemoryFullError", "Mesh", "MeshError"]
