"""How a transformer is trained: batch, sharding, precision and what is computed twice."""

from dataclasses import dataclass
from typing import Any

from tpuctl.perfmodel.workload.parallelism import Parallelism

REMATS = ("none", "minimal", "full", "offload")
"""What the backward pass computes again: nothing, what is cheap, every layer; or reads from the
host's memory."""

PRECISIONS = ("bf16", "int8", "fp8")
"""What the MXU multiplies in the layers; weights and moments have their own bytes."""


@dataclass(frozen=True, slots=True)
class TrainRun:
    """One optimizer step; `sequences` of the whole batch and `sequence_tokens` may be arrays.

    `weight_bytes`, `gradient_bytes` and `moment_bytes` are of one parameter: 8 moment bytes are two
    of float32 (Adam). A step has `accumulation_steps` forward and backward passes.
    """

    sequences: Any
    sequence_tokens: Any
    parallelism: Parallelism = Parallelism()
    remat: str = "full"
    precision: str = "bf16"
    weight_bytes: int = 4
    gradient_bytes: int = 4
    moment_bytes: int = 8
    accumulation_steps: Any = 1
    logit_chunks: int = 1
    """Parts that the loss is computed in, so that only one part of the logits is held."""
    capacity_factor: float | None = None
    """Places of an expert over the tokens that it gets when all get alike; None drops no token."""

    @property
    def tokens(self) -> Any:
        """Tokens of a step."""
        return self.sequences * self.sequence_tokens
