"""What it costs to take a product of matrices through VMEM in blocks.

The result is made in blocks as large as a kernel's VMEM holds, each from a band of both operands.
While one half of that VMEM is worked on, the other is filled.
"""

from tpuctl import catalog
from tpuctl.perfmodel.chip.numeric import Figure, choose, maximum, minimum, round_up

KERNEL_VMEM_BYTES = 32 * 2**20
"""What XLA gives one kernel of a TensorCore's VMEM, if there is so much: its default on v6e and
tpu7x (vllm-project/tpu-inference, pull request 3407)."""

_BLOCK_DEPTH = 512
_SIDE_STEP = 128


def exposed_bytes(chip: catalog.Chip) -> float:
    """The most bytes that move while nothing is computed: first blocks in, last ones out."""
    return _vmem_bytes(chip) / 2


def reread_share(
    chip: catalog.Chip,
    operand_bytes: int,
    sides: tuple[Figure, Figure, Figure],
    result_bytes: int,
) -> Figure:
    """The bytes that are read again, as a share of moving all once; sides are m, k and n.

    A left or right matrix that fills at most half of VMEM stays there: then nothing is read again.
    """
    m, k, n = sides
    left, right = operand_bytes * m * k, operand_bytes * k * n
    block = _block_side(_vmem_bytes(chip), operand_bytes)
    rows, columns = round_up(m, block) / block, round_up(n, block) / block
    again = left * (columns - 1) + right * (rows - 1)
    once = left + right + result_bytes * m * n
    stays = minimum(left, right) <= _vmem_bytes(chip) / 2
    return choose(stays, 0.0, again / maximum(once, 1.0))


def _vmem_bytes(chip: catalog.Chip) -> int:
    return min(chip.vmem_bytes_per_tensorcore, KERNEL_VMEM_BYTES) * chip.tensorcores


def _block_side(vmem_bytes: int, operand_bytes: int) -> int:
    """The largest whole side: a float32 block, two blocks of each operand on their way."""
    moving = 2 * operand_bytes * _BLOCK_DEPTH
    side = int((moving**2 + 4 * vmem_bytes) ** 0.5 - moving) // 4
    return max(_SIDE_STEP, side // _SIDE_STEP * _SIDE_STEP)
