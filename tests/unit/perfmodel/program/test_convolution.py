"""Convolutions as products of matrices, and the residual networks that are made of them."""

from math import prod

import pytest

from tpuctl.perfmodel.workload.program import program_time
from tpuctl.perfmodel.workload.program.convolution import Convolution, matmul_sides, multiply_adds
from tpuctl.perfmodel.workload.program.residual_network import network_operations, residual_network
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware


def test_a_row_for_each_place_and_a_column_for_each_pixel_under_the_kernel():
    stem = Convolution(8, (224, 224), 3, 64, (7, 7), strides=(2, 2), padding=((3, 3), (3, 3)))
    assert stem.result == (112, 112)
    assert matmul_sides(stem) == (8 * 112 * 112, 7 * 7 * 3, 64, 1)


def test_without_padding_every_product_of_the_matrices_is_one_of_pixels():
    convolution = Convolution(2, (9, 9), 6, 4, (3, 3), dilation=(2, 2), groups=2)
    assert convolution.result == (5, 5)
    assert prod(matmul_sides(convolution)) == multiply_adds(convolution)
    assert convolution.weights == 4 * 3 * 9


def test_zeros_of_padding_and_dilation_are_not_multiply_adds():
    padded = Convolution(1, (4,), 1, 1, (3,), padding=((1, 1),))
    assert multiply_adds(padded) == 10  # two of the twelve places are outside
    spread = Convolution(1, (4,), 1, 1, (3,), padding=((2, 2),), image_dilation=(2,))
    assert spread.result == (9,)
    assert multiply_adds(spread) == 12
    assert matmul_sides(spread) == (9, 2, 1, 1)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"channels": 0}, "at least 1"),
        ({"groups": 2}, "2 groups do not divide"),
        ({"kernel": (3, 3, 3)}, "different numbers of dimensions"),
        ({"kernel": (9, 9)}, "larger than its padded image"),
    ],
)
def test_what_is_not_a_convolution(changed, text):
    with pytest.raises(ValueError, match=text):
        Convolution(**{"images": 1, "image": (8, 8), "channels": 3, "filters": 2,
                       "kernel": (3, 3)} | changed)  # fmt: skip


def test_resnet_50_has_its_published_size():
    network = residual_network(50, images=1)
    products = sum(prod(matmul_sides(each)) for each in network)
    weights = sum(each.weights for each in network)
    assert len(network) == 54
    assert products == pytest.approx(4.1e9, rel=0.01)  # multiply-adds with those of the padding
    assert weights == pytest.approx(25.5e6, rel=0.01)
    assert sum(prod(matmul_sides(each)) for each in residual_network(152, 1)) == pytest.approx(
        11.5e9, rel=0.01
    )


def test_resnet_50_trains_within_the_interval_as_on_1024_chips_of_v3():
    """1.05 million images/s, 32 a chip (Ying et al., arXiv 1811.06992); nothing is fitted to it."""
    step = program_time(
        slice_hardware("v3", "2x2"),
        network_operations(residual_network(50, images=32), trains=True),
    )
    published_s = 32 / (1.05e6 / 1024)
    assert step.low_s < published_s < step.high_s
    assert step.value_s == pytest.approx(published_s, rel=0.17)


def test_a_network_of_another_depth():
    with pytest.raises(ValueError, match=r"no residual network of 34 layers; one of: \[50, 101"):
        residual_network(34, 1)
