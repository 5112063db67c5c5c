"""How often to save: the interval that loses least to saving and to preemptions together.

J. W. Young, A first order approximation to the optimum checkpoint interval, Communications of the
ACM 17(9), 1974, pages 530-531. J. T. Daly, A higher order estimate of the optimum checkpoint
interval for restart dumps, Future Generation Computer Systems 22(3), 2006, pages 303-312.

All times in seconds. `cost_s` is what one save costs the program, `mean_s` the mean time between
preemptions, which are taken to come at random: nothing is known of when.
"""

import math

SLOWDOWN = 1.3
"""The most that steps are slowed while a save goes on beside them (docs/benchmarks.md)."""


def cost_s(save_s: float, blocked_s: float) -> float:
    """The most that a save costs the program: the wait, and the steps slowed by SLOWDOWN."""
    return blocked_s + (save_s - blocked_s) * (1 - 1 / SLOWDOWN)


def young_s(cost_s: float, mean_s: float) -> float:
    """Young's interval between saves, of first order: sqrt(2 cost mean)."""
    return math.sqrt(2 * cost_s * mean_s)


def daly_s(cost_s: float, mean_s: float) -> float:
    """Daly's interval, of higher order (his equation 37).

    It is the mean itself when a save costs twice the mean or more.
    """
    if cost_s >= 2 * mean_s:
        return mean_s
    ratio = cost_s / (2 * mean_s)
    return young_s(cost_s, mean_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost_s


def lost_share(interval_s: float, cost_s: float, mean_s: float, restart_s: float) -> float:
    """The share of the time that is not progress: saves, steps done again, restarts.

    Daly's complete cost function: wall time over solve time is
    mean/interval * exp(restart/mean) * (exp((interval + cost)/mean) - 1).
    """
    try:
        stretch = math.exp(restart_s / mean_s) * math.expm1((interval_s + cost_s) / mean_s)
    except OverflowError:
        return 1.0
    return 1 - interval_s / (mean_s * stretch)
