"""Published rules for the size of a batch, the learning rate and the tokens of a training run.

They are fits to other people's models and data: an order of magnitude, where nothing else is known.
`operations` are all of a run: 6 for a parameter and token.
"""

import math

DEEPSEEK = "DeepSeek LLM 2024, arXiv 2401.02954, section 3.1"
HOFFMANN = "Hoffmann et al. 2022, arXiv 2203.15556, approach 3"
KAPLAN = "McCandlish et al. 2018, arXiv 1812.06162; Kaplan et al. 2020, arXiv 2001.08361, eq. 1.4"
GOYAL = "Goyal et al. 2017, arXiv 1706.02677 (SGD)"
MALLADI = "Malladi et al. 2022, arXiv 2205.10287 (Adam)"
TOKENS_A_PARAMETER = 20.0
"""What trains a model of the least loss for its operations, about."""


def best_batch_tokens(operations: float) -> float:
    """The batch of the least loss for a run of so many operations (DEEPSEEK)."""
    return 0.2920 * math.pow(operations, 0.3271)


def best_learning_rate(operations: float) -> float:
    """Adam's peak learning rate at that batch (DEEPSEEK)."""
    return 0.3118 * math.pow(operations, -0.1250)


def expected_loss(parameters: float, tokens: float) -> float:
    """The loss in nats a token of a model of so many parameters and tokens (HOFFMANN)."""
    return 1.69 + 406.4 / math.pow(parameters, 0.34) + 410.7 / math.pow(tokens, 0.28)


def critical_batch_tokens(loss: float) -> float:
    """The batch beyond which more of it saves few steps: 2e8 / loss^(1/0.21) tokens (KAPLAN)."""
    return 2e8 / math.pow(loss, 1 / 0.21)


def default_batch(operations: float, sequence_tokens: int, devices: int) -> int:
    """The best batch in sequences, rounded to a power of two times what is odd of the devices.

    So it can be cut evenly over 192 devices as well as over 256.
    """
    odd = devices // (devices & -devices)
    sequences = best_batch_tokens(operations) / sequence_tokens
    return int(odd * 2 ** max(0, round(math.log2(max(1.0, sequences / odd)))))
