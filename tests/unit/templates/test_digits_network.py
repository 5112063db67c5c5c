"""The network's gradients against finite differences, alone and split; how batches are dealt."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from system.templates.digits_runs import DIGITS

from localsim.core import Chip

MODULES = ("digits", "network", "parallel")


@pytest.fixture
def template(monkeypatch):
    """The template's modules, as its programs import them."""
    monkeypatch.syspath_prepend(str(DIGITS))
    import digits
    import network
    import parallel

    yield SimpleNamespace(digits=digits, network=network, parallel=parallel)
    for name in MODULES:
        del sys.modules[name]


class ExactChip(Chip):
    """Computes without rounding, so that differences show the gradient and nothing else."""

    def put(self, values, dtype="f32", memory="hbm"):
        return values

    def matmul(self, left, right):
        return left @ right

    def elementwise(self, function, *arrays, dtype="f32"):
        return function(*arrays)

    def reduce(self, kind, array, axis):
        return {"sum": np.sum}[kind](array, axis=axis)


class ExactGrid:
    """Chips in rows of `model`, all in this process; sums without rounding."""

    def __init__(self, data, model):
        self.sizes = {"data": data, "model": model}
        self.chips = [ExactChip("v5e") for _ in range(data * model)]

    def index(self, number, axis):
        return dict(zip(("data", "model"), divmod(number, self.sizes["model"]), strict=True))[axis]

    def all_reduce(self, by_chip, axis):
        (other,) = self.sizes.keys() - {axis}
        groups = [self.index(number, other) for number in range(len(by_chip))]
        given = list(zip(groups, by_chip, strict=True))
        return [self.total([each for group, each in given if group == own]) for own in groups]

    def total(self, given):
        if isinstance(given[0], list):
            return [sum(arrays) for arrays in zip(*given, strict=True)]
        return sum(given)


def exact(arrays):
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def examples(count):
    random = np.random.default_rng(0)
    return random.random((count, 64)), random.integers(0, 10, count)


@pytest.mark.parametrize("count", [1, 5])
def test_gradients_are_the_slopes_of_the_loss(template, count):
    network, random = template.network, np.random.default_rng(count)
    weights = exact(network.initial_weights(6, 1))
    weights["b1"] += random.standard_normal(6)
    weights["b2"] += random.standard_normal(10)
    pixels, labels = examples(count)
    chip = ExactChip("v5e")

    def backward():
        hidden, logits = network.forward(chip, weights, pixels)
        return network.backward(chip, weights, pixels, labels, hidden, logits)

    _, found = backward()
    assert found.keys() == weights.keys()
    for name, array in weights.items():
        for place in [tuple(random.integers(0, side) for side in array.shape) for _ in range(8)]:
            kept = array[place]
            array[place] = kept + 1e-6
            above, _ = backward()
            array[place] = kept - 1e-6
            below, _ = backward()
            array[place] = kept
            assert found[name][place] == pytest.approx((above - below) / 2e-6, abs=1e-5), name


def test_the_loss_is_minus_the_logarithm_of_the_true_digits_odds(template):
    hidden, weights = np.zeros((2, 1)), exact(template.network.initial_weights(1, 0))
    logits = np.zeros((2, 10))
    logits[1, 3] = 2000.0  # its odds overflow unless the greatest logit is taken off first
    loss, _ = template.network.backward(
        ExactChip("v5e"), weights, np.zeros((2, 64)), np.array([0, 4]), hidden, logits
    )
    assert loss == pytest.approx(np.log(10) + 2000, rel=1e-6)


@pytest.mark.parametrize(("data", "model"), [(4, 1), (1, 4), (2, 2), (3, 2)])
def test_chips_together_find_the_gradients_of_one(template, data, model):
    """Of unequal shares, one without examples, too."""
    network, parallel = template.network, template.parallel
    weights, (pixels, labels) = exact(network.initial_weights(8, 1)), examples(data + 4)
    shares = np.split(np.arange(data + 4), np.arange(data - 1) * 3)
    hidden, logits = network.forward(ExactChip("v5e"), weights, pixels)
    loss, whole = network.backward(ExactChip("v5e"), weights, pixels, labels, hidden, logits)

    grid = ExactGrid(data, model)
    parts = {index: parallel.part(weights, index, model) for index in range(model)}
    own = [shares[index] for index in parallel.places(grid, grid, "data")]
    found = parallel.gradients(grid, grid, parts, [(pixels[each], labels[each]) for each in own])
    assert found.keys() == parts.keys()
    for index, (their_loss, slopes) in found.items():
        assert their_loss == pytest.approx(loss, rel=1e-6)
        for name, expected in parallel.part(whole, index, model).items():
            np.testing.assert_allclose(slopes[name], expected, atol=1e-12, err_msg=name)


def test_a_checkpoint_has_every_part_of_a_split_network_at_its_place(template):
    arrays = template.network.initial_weights(8, 1)
    parts = {index: template.parallel.part(arrays, index, 4) for index in range(4)}
    # Of two workers that hold all of it, each saves half.
    saved = [template.parallel.whole(parts, 4, indices) for indices in ((0, 1), (2, 3))]
    for name in ("w1", "b1", "w2"):
        found = np.full(arrays[name].shape, np.nan, np.float32)
        for worker in saved:
            assert worker[name].shape == found.shape
            for box, array in zip(worker[name].placed(), worker[name].boxes.values(), strict=True):
                place = tuple(map(slice, box.offset, np.add(box.offset, box.shape)))
                assert np.isnan(found[place]).all()
                found[place] = array
        assert np.array_equal(found, arrays[name]), name
    assert np.array_equal(saved[0]["b2"], arrays["b2"])


def test_an_epoch_uses_every_digit_once_in_an_order_of_its_own(template):
    digits = template.digits
    dealt = np.concatenate([digits.batch(100, 30, 7, step) for step in range(10)])
    epochs = dealt.reshape(3, 100)
    assert [sorted(epoch) for epoch in epochs.tolist()] == [list(range(100))] * 3
    assert not np.array_equal(epochs[0], epochs[1])
    assert not np.array_equal(digits.batch(100, 30, 8, 0), digits.batch(100, 30, 7, 0))


def test_what_is_held_back_is_never_learned(template):
    learned, held_back = template.digits.split(1797)
    assert (len(learned), len(held_back)) == (1437, 360)
    assert sorted([*learned, *held_back]) == list(range(1797))
