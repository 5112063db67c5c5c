"""Convolutions as products of matrices: what the MXU multiplies for them.

A convolution is the product of a matrix with one row for each place of the result, whose columns
are the pixels under the kernel (im2col: Chellapilla, Puri and Simard, IWFHR 2006), and a matrix
with one column for each filter. The rows are made on the way into the MXU, so that HBM moves the
image once and not once for each place of the kernel. Zeros of the padding are multiplied; zeros
between the pixels of a dilated image, as in the gradient of a convolution with strides, are not.
"""

from dataclasses import dataclass
from math import ceil, prod

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Convolution:
    """`filters` filters over `images` images of any number of dimensions.

    `padding` has the pixels before and after each dimension; `dilation` spreads the kernel, and
    `image_dilation` the image. Each of `groups` sees its part of the channels only: as many groups
    as channels are a depthwise convolution. Raises ValueError for what cannot be.
    """

    images: int
    image: tuple[int, ...]
    channels: int
    filters: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    padding: tuple[Pair, ...] = ()
    dilation: tuple[int, ...] = ()
    image_dilation: tuple[int, ...] = ()
    groups: int = 1

    def __post_init__(self) -> None:
        for name in ("strides", "dilation", "image_dilation"):
            object.__setattr__(self, name, getattr(self, name) or (1,) * len(self.image))
        object.__setattr__(self, "padding", self.padding or ((0, 0),) * len(self.image))
        counts = (self.images, self.channels, self.filters, self.groups)
        sides = (*self.image, *self.kernel, *self.strides, *self.dilation, *self.image_dilation)
        if min((*counts, *sides)) < 1:
            raise ValueError("sizes of a convolution must be at least 1")
        lengths = {len(getattr(self, name)) for name in _PER_DIMENSION}
        if len(lengths) > 1:
            raise ValueError("the sizes of a convolution have different numbers of dimensions")
        if self.channels % self.groups or self.filters % self.groups:
            raise ValueError(f"{self.groups} groups do not divide the channels and filters")
        if min(self.result, default=1) < 1:
            raise ValueError("the kernel of a convolution is larger than its padded image")

    @property
    def result(self) -> tuple[int, ...]:
        """The sides of the result."""
        return tuple(self._result_side(place) for place in range(len(self.image)))

    @property
    def weights(self) -> int:
        """The numbers of all filters."""
        return self.filters * self.channels // self.groups * prod(self.kernel)

    @property
    def image_elements(self) -> int:
        """The numbers that go in."""
        return self.images * self.channels * prod(self.image)

    @property
    def result_elements(self) -> int:
        """The numbers that come out."""
        return self.images * self.filters * prod(self.result)

    def _result_side(self, place: int) -> int:
        spread = (self.image[place] - 1) * self.image_dilation[place] + 1
        covered = (self.kernel[place] - 1) * self.dilation[place] + 1
        return (spread + sum(self.padding[place]) - covered) // self.strides[place] + 1


_PER_DIMENSION = ("image", "kernel", "strides", "padding", "dilation", "image_dilation")


def matmul_sides(convolution: Convolution) -> tuple[int, int, int, int]:
    """m, k, n and how many: the products of matrices [m, k] x [k, n] that a convolution is."""
    taps = prod(map(_taps, convolution.kernel, convolution.image_dilation))
    rows = convolution.images * prod(convolution.result)
    groups = convolution.groups
    return rows, taps * convolution.channels // groups, convolution.filters // groups, groups


def _taps(kernel: int, image_dilation: int) -> int:
    """The pixels that are not zeros of dilation under one place of the kernel, at most."""
    return ceil(kernel / image_dilation)


def multiply_adds(convolution: Convolution) -> int:
    """Products of a pixel and a weight; those with a zero of padding or dilation are left out."""
    places = (_pixels(convolution, place) for place in range(len(convolution.image)))
    pairs = convolution.filters * convolution.channels // convolution.groups
    return convolution.images * pairs * prod(places)


def _pixels(convolution: Convolution, place: int) -> int:
    """How often a pixel lies under the kernel, over one dimension of the result."""
    stride, dilation = convolution.strides[place], convolution.dilation[place]
    image_dilation, before = convolution.image_dilation[place], convolution.padding[place][0]
    last = (convolution.image[place] - 1) * image_dilation
    count = 0
    for tap in range(convolution.kernel[place]):
        first = tap * dilation - before
        count += sum(
            0 <= position <= last and position % image_dilation == 0
            for position in range(first, first + stride * convolution.result[place], stride)
        )
    return count
