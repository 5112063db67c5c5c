"""The time of a tiled matmul: tiles come by DMA while those before them are multiplied and added.

VMEM has room for two of everything: a tile is multiplied while the next one is on its way, a
product is added to its block on the vector unit while the next one is made, a block leaves while
the next one is begun. Modelled, as all time of the chip.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from localsim.core.chip import costs
from localsim.core.chip.counters import Counters
from localsim.core.chip.scalar import ScalarUnit
from localsim.core.numbers.formats import format_of
from tpuctl.perfmodel import chip as model

_RESULT_BYTES = 4


@dataclass(frozen=True, slots=True)
class TileWork:
    """Seconds that one tile takes of each unit; a block is stored when it is complete."""

    product: Counters
    loaded_bytes: int
    stored_bytes: int
    load_s: float
    add_s: float
    store_s: float


@lru_cache(4096)
def tile_work(
    generation: str, sides: tuple[int, int, int], formats: tuple[str, str], *, is_last: bool
) -> TileWork:
    """Return the work of one tile [m, k] x [k, n] of operands in these formats."""
    m, k, n = sides
    left, right = (format_of(each).element_bytes for each in formats)
    loaded_bytes = m * k * left + k * n * right
    stored_bytes = m * n * _RESULT_BYTES if is_last else 0
    return TileWork(
        product=costs.matmul_cost(generation, (1, m, k, n), formats[0], 0),
        loaded_bytes=loaded_bytes,
        stored_bytes=stored_bytes,
        load_s=model.dma(generation, loaded_bytes).terms["memory"],
        add_s=model.elementwise(generation, 0, 0, m * n).terms["vector"],
        store_s=model.dma(generation, stored_bytes).terms["memory"],
    )


def kernel_cost(generation: str, tiles: Sequence[TileWork], dtype: str) -> Counters:
    """Return the cost of one kernel over these tiles of operands that hold `dtype`."""
    if not tiles:
        return Counters()
    launch_s = model.elementwise(generation, 0, 0).value_s
    done = Counters(
        flops=sum(each.product.flops for each in tiles),
        hbm_bytes=sum(each.loaded_bytes + each.stored_bytes for each in tiles),
        mxu_busy_s=sum(each.product.mxu_busy_s for each in tiles),
        modelled_s=launch_s + simulate_kernel(generation, tiles).now_s,
    )
    return costs.with_energy(generation, done, dtype)


def simulate_kernel(generation: str, tiles: Sequence[TileWork]) -> ScalarUnit:
    """Run a kernel of at least one tile; return its scalar unit, launch not included."""
    scalar = ScalarUnit(generation)
    product_s = added_s = stored_s = 0.0
    arrived_s = scalar.issue("dma", tiles[0].load_s)
    for before, here, after in zip((None, *tiles[:-1]), tiles, (*tiles[1:], None), strict=True):
        # It is there, and the product before last has been taken away.
        scalar.wait(max(arrived_s, added_s))
        before_s, product_s = product_s, scalar.issue("mxu", here.product.mxu_busy_s)
        scalar.wait(before_s)
        if after is not None:
            arrived_s = scalar.issue("dma", after.load_s)
        if before is not None:
            added_s, stored_s = _take_away(scalar, before, stored_s)
    scalar.wait(product_s)
    _take_away(scalar, tiles[-1], stored_s)
    scalar.finish()
    return scalar


def _take_away(scalar: ScalarUnit, tile: TileWork, stored_s: float) -> tuple[float, float]:
    """Add a product to its block, store the block when it is complete; when both are done."""
    added_s = scalar.issue("vpu", tile.add_s)
    if tile.stored_bytes:
        # The block before must have left: the next one takes its place.
        scalar.wait(max(added_s, stored_s))
        stored_s = scalar.issue("dma", tile.store_s)
    return added_s, stored_s
