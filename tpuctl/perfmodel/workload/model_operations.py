"""The operations that a model needs, whatever a program computes twice: what MFU counts.

PaLM (arXiv 2204.02311, appendix B): 6 for a parameter and token of training, of which a mixture
counts those that a token goes through, and 12 x layers x heads x head dimension x attended tokens
for the products of attention. Of causal attention the half that is needed counts.
"""

from tpuctl.perfmodel.workload.transformer import Transformer, count_parameters

_PASSES = 3
"""A forward pass, and a backward one of twice the operations."""


def train_operations(model: Transformer, sequence_tokens: int) -> float:
    """Operations of one token of training in sequences of that length, all layers together."""
    count = count_parameters(model)
    multiplied = count.active - count.embedding + model.vocab * model.hidden
    return _PASSES * (2 * multiplied + attention_operations(model, sequence_tokens))


def attention_operations(model: Transformer, sequence_tokens: int) -> float:
    """Operations of one token's products of queries, keys and values in a forward pass."""
    kinds = model.attention
    mean_tokens = sequence_tokens * (0.5 if model.is_causal else 1.0)
    within_tokens = min(kinds.window_tokens, mean_tokens)
    widths = sum(model.head_dims)
    full_widths = 2 * kinds.full_head_dim or widths
    full = model.full_layers * full_widths * mean_tokens
    windowed = kinds.window_layers * widths * within_tokens
    return 2 * model.heads * (full + windowed)
