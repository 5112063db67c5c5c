"""The convolutions of a residual network (He et al., CVPR 2016, table 1), and what it computes.

Strides are in the 3x3 convolution of a block, as in the networks that are trained today (version
1.5), not in the 1x1 before it.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from tpuctl.perfmodel.workload.program.convolution import Convolution
from tpuctl.perfmodel.workload.program.program_times import ProgramOperation

BLOCKS: Mapping[int, tuple[int, int, int, int]] = MappingProxyType(
    {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
)
"""Layers -> blocks of three convolutions in each of the four stages."""

_EXPANSION = 4
_STEM_CHANNELS = 64
_CLASSES = 1000


def residual_network(layers: int, images: int, image_side: int = 224) -> list[Convolution]:
    """Every convolution of a network for so many images; the last one is the dense layer.

    Raises ValueError for a number of layers that BLOCKS does not have.
    """
    if layers not in BLOCKS:
        raise ValueError(f"no residual network of {layers} layers; one of: {sorted(BLOCKS)}")
    stem = _square(images, image_side, 3, _STEM_CHANNELS, kernel=7, stride=2)
    side, channels = -(-stem.result[0] // 2), _STEM_CHANNELS  # a pooling of stride 2 follows
    network = [stem]
    for stage, blocks in enumerate(BLOCKS[layers]):
        width = _STEM_CHANNELS << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            network += _block(images, side, channels, width, stride)
            side, channels = network[-1].result[0], width * _EXPANSION
    return [*network, _square(images, 1, channels, _CLASSES, kernel=1)]


def network_operations(
    network: Sequence[Convolution], *, dtype: str = "bf16", trains: bool = False
) -> list[ProgramOperation]:
    """What a network computes: convolutions, and the passes of normalization and activation.

    A pass over a result reads it and writes it. Training computes each convolution three times
    (forward, and the gradients of the image and of the weights; the first image needs none) and
    normalizes with statistics, which reads the result once more on the way and twice on the way
    back.
    """
    return [
        operation
        for place, convolution in enumerate(network)
        for operation in _operations(convolution, dtype, trains=trains, is_first=not place)
    ]


def _operations(
    convolution: Convolution, dtype: str, *, trains: bool, is_first: bool
) -> Iterator[ProgramOperation]:
    times = 1 if not trains else 2 if is_first else 3
    yield ProgramOperation("convolution", "conv", dtype, times, convolution=convolution)
    result_bytes = 2.0 * convolution.result_elements
    passes, reads = (2, 5) if trains else (1, 1)
    yield ProgramOperation(
        "elementwise",
        "normalize",
        read_bytes=reads * result_bytes,
        written_bytes=passes * result_bytes,
        flops=4.0 * passes * convolution.result_elements,
    )


def _block(images: int, side: int, channels: int, width: int, stride: int) -> list[Convolution]:
    """The convolutions of a block; the one of the shortcut, where there is one, comes first."""
    wide = width * _EXPANSION
    shortcut = [_square(images, side, channels, wide, kernel=1, stride=stride)]
    inner = _square(images, side, width, width, kernel=3, stride=stride)
    return [
        *(shortcut if channels != wide else []),
        _square(images, side, channels, width, kernel=1),
        inner,
        _square(images, inner.result[0], width, wide, kernel=1),
    ]


def _square(
    images: int, side: int, channels: int, filters: int, *, kernel: int, stride: int = 1
) -> Convolution:
    """A convolution over a square whose result has the side of the image over the stride."""
    around = (kernel // 2, kernel // 2)
    return Convolution(
        images=images,
        image=(side, side),
        channels=channels,
        filters=filters,
        kernel=(kernel, kernel),
        strides=(stride, stride),
        padding=(around, around),
    )
