"""The simulated chip: real numbers at BLAS speed, and what they would have cost a TPU.

with Mesh.connect() as mesh:
    products = [chip.matmul(x, w) for chip in mesh.chips]
    sums = mesh.all_reduce(products)
"""

from localsim.core.buffers import Buffer
from localsim.core.chip import Chip
from localsim.core.counters import Counters
from localsim.core.grid import Grid
from localsim.core.memory import MemoryFullError
from localsim.core.mesh import Mesh, MeshError

__all__ = ["Buffer", "Chip", "Counters", "Grid", "MemoryFullError", "Mesh", "MeshError"]
