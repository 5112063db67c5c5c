"""Where a function of a few numbers is smallest: the simplex of Nelder and Mead."""

from collections.abc import Callable

import numpy as np

_STEPS = 200
_CLOSE = 1e-9


def smallest(function: Callable[[np.ndarray], float], start: np.ndarray) -> np.ndarray:
    """Begun again where it ended, each time from a smaller simplex: so it does not stop early."""
    best = start
    for reach in (0.3, 0.05):
        corners = [best, *(best + reach * row for row in np.eye(len(best)))]
        best = _one_run(function, [(function(corner), corner) for corner in corners])
    return best


def _one_run(
    function: Callable[[np.ndarray], float], corners: list[tuple[float, np.ndarray]]
) -> np.ndarray:
    for _ in range(_STEPS):
        corners.sort(key=lambda corner: corner[0])
        if corners[-1][0] - corners[0][0] < _CLOSE:
            break
        worst_value, worst = corners.pop()
        center = sum(_points(corners)) / len(corners)
        value, point = _better(function, corners, center, worst)
        if value < worst_value:
            corners.append((value, point))
        else:
            shrunk = [0.5 * (corners[0][1] + point) for point in (*_points(corners[1:]), worst)]
            corners = [corners[0], *((function(point), point) for point in shrunk)]
    return min(corners, key=lambda corner: corner[0])[1]


def _better(
    function: Callable[[np.ndarray], float],
    corners: list[tuple[float, np.ndarray]],
    center: np.ndarray,
    worst: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Mirrored at the others' center; farther where that is the best, else half way back."""
    mirrored = 2 * center - worst
    value = function(mirrored)
    if corners[0][0] <= value < corners[-1][0]:
        return value, mirrored
    other = center + (2 if value < corners[0][0] else -0.5) * (center - worst)
    return min([(value, mirrored), (function(other), other)], key=lambda one: one[0])


def _points(corners: list[tuple[float, np.ndarray]]) -> list[np.ndarray]:
    return [point for _, point in corners]
