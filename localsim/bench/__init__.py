"""How fast the simulated chips compute on this machine, and how fast the real ones would have.

What this machine took is measured; what a chip would have taken is modelled, with its interval.
Nothing here needs a running cloud: chips of several workers are in processes of their own.
"""

from localsim.bench.bench_error import BenchError
from localsim.bench.run import bench

__all__ = ["BenchError", "bench"]
