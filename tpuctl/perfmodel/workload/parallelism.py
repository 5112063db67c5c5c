"""How a program is cut over the chips of one slice or several."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Ways of every kind of parallelism; their product is the number of devices.

    Each is a whole number, or an array of them that broadcasts with the others: many ways to cut
    are asked for at once. Within a slice: `data` copies the weights, `fsdp` cuts weights and batch,
    `tensor` cuts every matrix, `sequence` cuts the tokens of a sequence, `expert` gives each device
    some experts, `pipeline` gives it some layers. Between slices, over the network: `dcn_data`,
    `dcn_fsdp`, `dcn_pipeline`. Raises ValueError for a way below 1.
    """

    data: Any = 1
    fsdp: Any = 1
    tensor: Any = 1
    sequence: Any = 1
    expert: Any = 1
    pipeline: Any = 1
    dcn_data: Any = 1
    dcn_fsdp: Any = 1
    dcn_pipeline: Any = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            ways = getattr(self, field.name)
            if ways < 1 if isinstance(ways, int) else np.any(np.less(ways, 1)):
                raise ValueError(f"{field.name} must be at least 1")

    @property
    def devices_per_slice(self) -> Any:
        """Devices of one slice."""
        inside = self.data * self.fsdp * self.tensor
        return inside * self.sequence * self.expert * self.pipeline

    @property
    def slices(self) -> Any:
        """Slices that the program runs on."""
        return self.dcn_data * self.dcn_fsdp * self.dcn_pipeline

    @property
    def devices(self) -> Any:
        """Devices of all slices."""
        return self.devices_per_slice * self.slices

    @property
    def batch_ways(self) -> Any:
        """Into how many parts the sequences of a batch are cut."""
        return self.data * self.fsdp * self.expert * self.dcn_data * self.dcn_fsdp
