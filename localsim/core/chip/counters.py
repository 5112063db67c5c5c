"""What a chip has done: work, traffic, energy and time, all of it modelled, none of it measured."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Counters:
    """What was done since the chip was switched on; a difference of two is what was done between.

    `flops` counts the matrix unit alone, 2 for each product of two elements, of int8 and fp8 too,
    and of float32 in several passes.
    `energy_j` is an estimate where a generation's power is not public.
    """

    flops: int = 0
    hbm_bytes: int = 0
    ici_bytes: int = 0
    mxu_busy_s: float = 0.0
    energy_j: float = 0.0
    modelled_s: float = 0.0

    def __add__(self, other: "Counters") -> Self:
        return type(self)(
            self.flops + other.flops,
            self.hbm_bytes + other.hbm_bytes,
            self.ici_bytes + other.ici_bytes,
            self.mxu_busy_s + other.mxu_busy_s,
            self.energy_j + other.energy_j,
            self.modelled_s + other.modelled_s,
        )

    def __sub__(self, other: "Counters") -> Self:
        return self + type(self)(*(-getattr(other, each) for each in self.__slots__))
