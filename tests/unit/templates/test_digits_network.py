"""The network's gradients against finite differences, the deal of batches against its rules."""

import sys

import numpy as np
import pytest
from digits_runs import DIGITS

from localsim.core import Chip


@pytest.fixture
def template(monkeypatch):
    """The template's modules, as its programs import them."""
    monkeypatch.syspath_prepend(str(DIGITS))
    import digits
    import network

    yield digits, network
    for name in ("digits", "network"):
        del sys.modules[name]


class ExactChip(Chip):
    """Multiplies without rounding, so that differences show the gradient and nothing else."""

    def matmul(self, left, right):
        return left @ right

    def elementwise(self, function, *arrays):
        return function(*arrays)


def test_gradients_are_the_slopes_of_the_loss(template):
    _, network = template
    random = np.random.default_rng(0)
    weights = {
        name: array.astype(np.float64) for name, array in network.initial_weights(6, 1).items()
    }
    pixels, labels = random.random((5, 64)), random.integers(0, 10, 5)
    chip = ExactChip("v5e")

    def exact_loss():
        _, odds = network.forward(chip, weights, pixels)
        return -np.log(odds[np.arange(5), labels]).sum()

    _, found = network.gradients(chip, weights, pixels, labels)
    for name, array in weights.items():
        for place in [tuple(random.integers(0, side) for side in array.shape) for _ in range(8)]:
            kept = array[place]
            array[place] = kept + 1e-6
            above = exact_loss()
            array[place] = kept - 1e-6
            below = exact_loss()
            array[place] = kept
            assert found[name][place] == pytest.approx((above - below) / 2e-6, abs=1e-5), name


def test_an_epoch_uses_every_digit_once_in_an_order_of_its_own(template):
    digits, _ = template
    dealt = np.concatenate([digits.batch(100, 30, 7, step) for step in range(10)])
    epochs = dealt.reshape(3, 100)
    assert [sorted(epoch) for epoch in epochs.tolist()] == [list(range(100))] * 3
    assert not np.array_equal(epochs[0], epochs[1])
    assert not np.array_equal(digits.batch(100, 30, 8, 0), digits.batch(100, 30, 7, 0))


def test_what_is_held_back_is_never_learned(template):
    digits, _ = template
    learned, held_back = digits.split(1797)
    assert (len(learned), len(held_back)) == (1437, 360)
    assert sorted([*learned, *held_back]) == list(range(1797))
