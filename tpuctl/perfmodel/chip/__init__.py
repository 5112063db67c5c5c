"""How long one chip computes, moves memory, and how long a slice exchanges an array: closed forms.

Every answer is modelled: a value, an interval, the terms it is made of and where its constants come
from. Sizes and sides are numbers or arrays that broadcast. What cannot be asked is a ValueError, an
unknown generation or accelerator type a catalog.UnknownError.
"""

from tpuctl.perfmodel.chip.energy import energy
from tpuctl.perfmodel.chip.estimate import Estimate
from tpuctl.perfmodel.chip.queries import (
    all_reduce,
    collective,
    copy,
    dcn_all_reduce,
    dma,
    elementwise,
    matmul,
)
from tpuctl.perfmodel.chip.torus import Axis, axes, axes_of

__all__ = [
    "Axis",
    "Estimate",
    "all_reduce",
    "axes",
    "axes_of",
    "collective",
    "copy",
    "dcn_all_reduce",
    "dma",
    "elementwise",
    "energy",
    "matmul",
]
