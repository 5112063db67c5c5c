"""How a transformer answers: requests at once, lengths, sharding and the bytes of what is read."""

from dataclasses import dataclass
from typing import Any

from tpuctl.perfmodel.workload.parallelism import Parallelism


@dataclass(frozen=True, slots=True)
class ServingRun:
    """Requests that one engine of `parallelism.devices` devices has in flight; arrays broadcast.

    `prompt_tokens` go in and `output_tokens` come out of a request; a token is generated for
    `requests` at once. `weight_bytes` and `cache_bytes` are of one number: 1 is int8 or fp8;
    `expert_bytes` are those of routed experts, None where they have the other weights' bytes.
    Attention is cut by `parallelism.data` and `expert` over the requests and by `tensor` over the
    heads; experts are cut by `expert` and `tensor`. `fsdp` counts as `data`: engines copy weights.

    `prefills_per_step` says how many prompts are read beside one step of decoding: None is the
    closed loop, where every request that ends is followed by another one; 0 is decoding alone.
    `cached_prompt_tokens` of each prompt are in the cache before it arrives. `engine` is one
    of serving_constants.known_engines, upper or lower case; any other has the mean of those.
    """

    requests: Any
    prompt_tokens: Any
    output_tokens: Any
    parallelism: Parallelism = Parallelism()
    weight_bytes: float = 2
    cache_bytes: float = 2
    expert_bytes: float | None = None
    prefills_per_step: Any = None
    cached_prompt_tokens: Any = 0
    engine: str = ""

    @property
    def mean_length(self) -> Any:
        """Tokens that a request has in the cache, on the mean over its generation."""
        return self.prompt_tokens + self.output_tokens / 2

    @property
    def bytes_of_expert_weight(self) -> float:
        """Bytes of one number of a routed expert."""
        return self.weight_bytes if self.expert_bytes is None else self.expert_bytes
