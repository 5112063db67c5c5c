"""How a transformer answers: requests at once, lengths, sharding and the bytes of what is read."""

from dataclasses import dataclass
from typing import Any

from tpuctl.perfmodel.workload.parallelism import Parallelism


@dataclass(frozen=True, slots=True)
class ServingRun:
    """Requests that one engine of `parallelism.devices` devices has in flight; arrays broadcast.

    `prompt_tokens` go in and `output_tokens` come out of a request; a token is generated for
    `requests` at once. `weight_bytes` and `cache_bytes` are of one number: 1 is int8 or fp8.
    """

    requests: Any
    prompt_tokens: Any
    output_tokens: Any
    parallelism: Parallelism = Parallelism()
    weight_bytes: float = 2
    cache_bytes: float = 2
