"""How the chips of a grid share the work.

Along the axis "data" each takes its part of the batch, and gradients are summed. Along "model" each
holds its part of the hidden layer, w1 by columns and w2 by rows, and logits are summed.
"""

import network
import numpy as np

from tpuctl.checkpoint import Shards

AXES = {"w1": 1, "b1": 0, "w2": 0}
"""Along which axis an array is split over "model"; b2 is whole on each chip."""


def places(mesh, grid, axis):
    """The index of each chip of this worker along an axis of the grid."""
    return [grid.index(number, axis) for number in range(len(mesh.chips))]


def gradients(mesh, grid, parts, batch):
    """The loss and the gradients of the whole batch, by index along "model".

    `parts` has the weights of each index that this worker holds, `batch` the pixels and digits of
    each chip.
    """
    indices = places(mesh, grid, "model")
    own = [
        (chip, parts[index], chip.put(pixels, "bf16"), digits)
        for chip, index, (pixels, digits) in zip(mesh.chips, indices, batch, strict=True)
    ]
    layers = [network.forward(chip, weights, pixels) for chip, weights, pixels, _ in own]
    logits = grid.all_reduce([each for _, each in layers], "model")
    found = [
        network.backward(*each, hidden, summed)
        for each, (hidden, _), summed in zip(own, layers, logits, strict=True)
    ]
    names = found[0][1].keys()
    sums = grid.all_reduce([[loss, *slopes.values()] for loss, slopes in found], "data")
    return {
        index: (loss, dict(zip(names, slopes, strict=True)))
        for index, (loss, *slopes) in zip(indices, sums, strict=True)
    }


def part(arrays, index, count):
    """A copy of what the chip at `index` of `count` along "model" holds of whole arrays."""
    return {
        name: (np.split(array, count, AXES[name])[index] if name in AXES else array).copy()
        for name, array in arrays.items()
    }


def whole(parts, count, saved):
    """The whole arrays for a checkpoint, of which this worker saves the parts at `saved` indices.

    `parts` has the arrays of every index that this worker holds. Each index is saved by one worker;
    so what was saved split one way can be restored split any other.
    """
    arrays = dict(next(iter(parts.values())))
    for name, axis in AXES.items():
        shape = np.array(arrays[name].shape)
        along = np.arange(len(shape)) == axis
        boxes = {tuple(index * shape * along): parts[index][name] for index in saved}
        arrays[name] = Shards(np.where(along, count * shape, shape), np.float32, boxes)
    return arrays
