"""Measure the chips of a worker with JAX: products, memory, collectives and a small train step.

Each row is a line of JSON on standard output, of worker 0 alone. A kernel runs in a loop on the
device; two lengths of the loop are timed, and the difference of their times over that of their
lengths is the time of one: neither the launch of the program nor the way to the host is in it.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import sys
import time
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Kernel = Callable[[Any], Any]
    Loop = Callable[[int], float]
    Cases = Iterator[tuple[dict[str, Any], Kernel, Any]]
    Timed = Callable[[Any, Kernel, Any], float]

LONGEST_S = 1.0
"""A series ends after the size whose one run takes longer."""
TIMED_S = 0.2
"""How long a loop runs that is timed, where one run is short."""
MOST_RUNS = 10_000
REPEATS = 3
MIB = 2**20


def main() -> int:
    """Measure what the orders in the only argument say; the exit status."""
    orders = json.loads(sys.argv[1])
    if importlib.util.find_spec("jax") is None:
        say({"missing": "jax"})
        return 0
    jax = importlib.import_module("jax")
    if orders["workers"] > 1:
        jax.distributed.initialize()
    for row in measure(jax, orders):
        if jax.process_index() == 0:
            say(row)
    return 0


def say(row: dict[str, Any]) -> None:
    """Write one line of JSON."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def measure(jax: Any, orders: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What JAX reports of itself, and then every row as it is measured."""
    device = jax.devices()[0]
    yield {
        "jax": jax.__version__,
        "platform": device.platform,
        "device_kind": device.device_kind,
        "devices": jax.device_count(),
    }
    for make in (products, copies):
        yield from series(jax, make(jax, orders), time_one)
    if jax.device_count() > 1:
        cases = (collectives(jax, size_bytes) for size_bytes in orders["collectives"])
        yield from series(jax, itertools.chain.from_iterable(cases), time_together)
    for sizes in orders["train_steps"]:
        yield from series(jax, train_steps(jax, sizes), time_together)


def series(jax: Any, cases: Cases, timed: Timed) -> Iterator[dict[str, Any]]:
    """Measure cases of growing size until one takes long."""
    for fields, kernel, state in cases:
        measured_s = timed(jax, kernel, state)
        yield {**fields, "measured_s": measured_s}
        if measured_s > LONGEST_S:
            return


def products(jax: Any, orders: dict[str, Any]) -> Cases:
    """Square matrices, each product of which is the next one's left side."""
    numpy = jax.numpy
    for dtype, side in orders["products"]:
        fields = {"kind": "matmul", "dtype": dtype, "m": side, "k": side, "n": side}
        if dtype == "int8":
            weights = numpy.ones((side, side), numpy.int8)
            yield fields, _int8_product(jax), (weights, weights)
        else:
            weights = numpy.eye(side, dtype=numpy.bfloat16)
            yield fields, _bf16_product(jax), (weights, weights)


def _bf16_product(jax: Any) -> Kernel:
    numpy, lax = jax.numpy, jax.lax

    def multiply(state: Any) -> Any:
        left, right = state
        wide = lax.dot(left, right, preferred_element_type=numpy.float32)
        return wide.astype(numpy.bfloat16), right

    return multiply


def _int8_product(jax: Any) -> Kernel:
    numpy, lax = jax.numpy, jax.lax

    def multiply(state: Any) -> Any:
        left, right = state
        wide = lax.dot(left, right, preferred_element_type=numpy.int32)
        return (wide >> 8).astype(numpy.int8), right

    return multiply


def copies(jax: Any, orders: dict[str, Any]) -> Cases:
    """An array that is read and written, and is too large to stay on the chip."""
    numpy = jax.numpy
    for size_bytes in orders["copies"]:
        fields = {"kind": "copy", "dtype": "bf16", "size_bytes": size_bytes}
        yield fields, lambda array: array + 1, numpy.ones(size_bytes // 2, numpy.bfloat16)


def collectives(jax: Any, size_bytes: int) -> Cases:
    """An array of every device, exchanged by all of them; the size is that of the whole array."""
    count = jax.device_count()
    mesh = jax.sharding.Mesh(jax.devices(), ("all",))
    elements = max(1, size_bytes // 2 // count**2) * count**2
    for operation, kernel in _exchanges(jax, count).items():
        fields = {"kind": "collective", "dtype": "bf16", "exchange": operation}
        own = elements if operation in ("all_reduce", "reduce_scatter") else elements // count
        state = _spread(jax, mesh, (count * own,))
        yield {**fields, "size_bytes": 2 * elements}, _on_all(jax, mesh, kernel), state


def _exchanges(jax: Any, count: int) -> dict[str, Kernel]:
    """Operation -> what a device does with its array; the result has the array's shape."""
    lax = jax.lax

    def all_reduce(own: Any) -> Any:
        return lax.psum(own, "all") * 0.5

    def all_gather(own: Any) -> Any:
        # The part of another device, so that the whole array has to come.
        whole = lax.all_gather(own, "all")
        return whole[(lax.axis_index("all") + 1) % count] + 1

    def reduce_scatter(own: Any) -> Any:
        part = lax.psum_scatter(own, "all", tiled=True)
        return lax.dynamic_update_slice(own, part * 0.5, (0,))

    def all_to_all(own: Any) -> Any:
        return lax.all_to_all(own, "all", 0, 0, tiled=True) + 1

    kernels = (all_reduce, all_gather, reduce_scatter, all_to_all)
    return {kernel.__name__: kernel for kernel in kernels}


def _on_all(jax: Any, mesh: Any, kernel: Kernel) -> Kernel:
    spec = jax.sharding.PartitionSpec("all")
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        shard_map = importlib.import_module("jax.experimental.shard_map").shard_map
    mapped: Kernel = shard_map(kernel, mesh=mesh, in_specs=spec, out_specs=spec)
    return mapped


def _spread(jax: Any, mesh: Any, shape: tuple[int, ...]) -> Any:
    """An array of ones whose first dimension is cut over all devices."""
    spec = jax.sharding.PartitionSpec("all")
    sharding = jax.sharding.NamedSharding(mesh, spec)
    make = jax.jit(lambda: jax.numpy.ones(shape, jax.numpy.bfloat16), out_shardings=sharding)
    return make()


def train_steps(jax: Any, sizes: dict[str, int]) -> Cases:
    """A step of gradient descent of square layers, with the batch cut over all devices."""
    numpy, count = jax.numpy, jax.device_count()
    layers, hidden, rows = sizes["layers"], sizes["hidden"], sizes["rows_per_device"]
    mesh = jax.sharding.Mesh(jax.devices(), ("all",))
    copied = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    identity = numpy.eye(hidden, dtype=numpy.bfloat16)
    start = jax.jit(lambda: [identity for _ in range(layers)], out_shardings=copied)

    def loss(weights: Any, batch: Any) -> Any:
        for weight in weights:
            batch = jax.nn.relu(batch @ weight)
        return (batch.astype(numpy.float32) ** 2).mean()

    def step(state: Any) -> Any:
        weights, batch = state
        gradients = jax.grad(loss)(weights, batch)
        return jax.tree.map(lambda weight, slope: weight - 1e-3 * slope, weights, gradients), batch

    fields = {"kind": "train_step", "dtype": "bf16", **sizes}
    yield fields, step, (start(), _spread(jax, mesh, (count * rows, hidden)))


def time_one(jax: Any, kernel: Kernel, state: Any) -> float:
    """Seconds of one run on this process's own devices."""
    loop = _loop(jax, kernel, state)
    once_s = _once(loop)
    return once_s if once_s > LONGEST_S else _slope(loop, _runs(once_s))


def time_together(jax: Any, kernel: Kernel, state: Any) -> float:
    """Seconds of one run on the devices of all processes, as worker 0 timed it.

    All of them run it equally often: as often as worker 0 says.
    """
    loop = _loop(jax, kernel, state)
    once_s = agreed(jax, _once(loop))
    return once_s if once_s > LONGEST_S else agreed(jax, _slope(loop, _runs(once_s)))


def agreed(jax: Any, seconds: float) -> float:
    """The number of worker 0, on every worker."""
    if jax.process_count() == 1:
        return seconds
    utilities = importlib.import_module("jax.experimental.multihost_utils")
    return float(utilities.broadcast_one_to_all(jax.numpy.float32(seconds)))


def _loop(jax: Any, kernel: Kernel, state: Any) -> Loop:
    """How long a number of runs takes, one after the other; compiled when this returns."""

    repeat = jax.jit(
        lambda runs, first: jax.lax.fori_loop(0, runs, lambda _, state: kernel(state), first)
    )

    def run(runs: int) -> float:
        began_s = time.perf_counter()
        jax.block_until_ready(repeat(runs, state))
        return time.perf_counter() - began_s

    run(1)
    return run


def _once(loop: Loop) -> float:
    """Seconds of one run with its launch."""
    return max(loop(1), 1e-6)


def _runs(once_s: float) -> int:
    """How many runs take about as long as is timed."""
    return max(1, min(MOST_RUNS, int(TIMED_S / once_s)))


def _slope(loop: Loop, runs: int) -> float:
    """Seconds of one run: what twice as many take longer, over their number; the least of some.

    Where other programs disturb the loops so much that twice as many do not take longer, it is the
    time of the longer loop over its number of runs.
    """
    short_s, long_s = (min(loop(count) for _ in range(REPEATS)) for count in (runs, 2 * runs))
    return (long_s - short_s) / runs if long_s > short_s else long_s / (2 * runs)


if __name__ == "__main__":
    sys.exit(main())
